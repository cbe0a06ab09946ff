-- A query belongs to the category of its product. Its own timestamp dates it, else the first purchase.
SELECT query_id, text, user_id, product_id, category,
       coalesce(queries.time, bought.first_time) AS timestamp, split, review
FROM queries
JOIN products USING (product_id)
LEFT JOIN (
    SELECT user_id, product_id, min(time) AS first_time FROM purchases GROUP BY user_id, product_id
) AS bought USING (user_id, product_id)
ORDER BY query_id, category
