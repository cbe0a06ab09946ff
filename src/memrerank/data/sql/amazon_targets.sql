-- A query belongs to the category in which its user bought its product; the first purchase dates it.
SELECT query_id, text, user_id, queries.product_id, category, min(timestamp) AS timestamp,
       NULL::VARCHAR AS split, review
FROM queries JOIN bought USING (user_id)
WHERE queries.product_id = bought.product_id
GROUP BY ALL
ORDER BY query_id, category
