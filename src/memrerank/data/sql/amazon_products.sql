-- The products wanted, with their metadata and their text in the item pool. One that several
-- categories describe keeps the first description with a title, in order of category.
WITH repeated AS (SELECT parent_asin FROM metadata GROUP BY parent_asin HAVING count(*) > 1),
described AS (
    SELECT * FROM metadata WHERE parent_asin NOT IN (SELECT parent_asin FROM repeated)
    UNION ALL
    SELECT * FROM metadata WHERE parent_asin IN (SELECT parent_asin FROM repeated)
    QUALIFY row_number() OVER (
        PARTITION BY parent_asin ORDER BY coalesce(trim(title), '') = '', category) = 1
),
ids AS (SELECT id FROM wanted UNION SELECT parent_asin FROM described),
positives AS (SELECT DISTINCT product_id FROM queries),
answers AS (SELECT DISTINCT product_id FROM targets WHERE category = getvariable('category'))
SELECT id, coalesce(described.category, items.category, '') AS category,
       title, description, features, details, items.text AS item_text,
       described.parent_asin IS NOT NULL AS described,
       items.item_id IS NOT NULL AS in_items,
       positives.product_id IS NOT NULL AS is_positive,
       CASE getvariable('corpus')
           WHEN 'c4_1m' THEN items.item_id IS NOT NULL OR positives.product_id IS NOT NULL
           WHEN 'category'
               THEN coalesce(described.category = getvariable('category'), false) OR answers.product_id IS NOT NULL
           ELSE true
       END AS in_corpus
FROM ids
LEFT JOIN described ON described.parent_asin = id
LEFT JOIN items ON items.item_id = id
LEFT JOIN positives ON positives.product_id = id
LEFT JOIN answers ON answers.product_id = id
ORDER BY id
