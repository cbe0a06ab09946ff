-- What the user of a target bought strictly before it, once per product and time, the positive
-- excluded at any time. A purchase that two categories hold is within if one of them is the target's.
SELECT query_id, targets.category, bought.product_id, bought.timestamp,
       bool_or(bought.category = targets.category) AS within
FROM targets JOIN bought USING (user_id)
WHERE bought.timestamp < targets.timestamp AND bought.product_id <> targets.product_id
GROUP BY ALL
ORDER BY query_id, targets.category, bought.timestamp, bought.product_id
