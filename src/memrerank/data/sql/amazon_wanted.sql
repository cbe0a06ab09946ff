-- Every product that the item pool, a query or a history may need, in any category: the corpus of
-- the item pool is then the same whatever category is chosen.
SELECT id FROM (
    SELECT item_id AS id FROM items
    UNION SELECT product_id FROM queries
    UNION SELECT product_id FROM purchases
)
ORDER BY id
