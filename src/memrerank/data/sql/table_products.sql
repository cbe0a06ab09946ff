-- Products that are searched, and those that any query or history needs. The description is a list of
-- one: a text that looks like JSON is then taken as it stands.
WITH positives AS (SELECT DISTINCT product_id FROM targets),
bought AS (SELECT DISTINCT product_id FROM before),
marked AS (
    SELECT products.*, positives.product_id IS NOT NULL AS is_positive,
           getvariable('corpus') = 'all' OR category = getvariable('category') AS in_corpus
    FROM products LEFT JOIN positives USING (product_id)
)
SELECT product_id AS id, category, title,
       CASE WHEN description IS NOT NULL THEN CAST(to_json([description]) AS VARCHAR) END AS description,
       NULL::VARCHAR AS features, NULL::VARCHAR AS details, NULL::VARCHAR AS item_text,
       true AS described, false AS in_items, is_positive, in_corpus
FROM marked LEFT JOIN bought USING (product_id)
WHERE in_corpus OR is_positive OR bought.product_id IS NOT NULL
ORDER BY id
