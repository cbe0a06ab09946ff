-- Products of one file, once each. One that is described several times keeps its first description
-- with a title. Only those go through the window, so that it stays small.
WITH repeated AS (SELECT parent_asin FROM described GROUP BY parent_asin HAVING count(*) > 1)
SELECT * FROM described WHERE parent_asin NOT IN (SELECT parent_asin FROM repeated)
UNION ALL
SELECT * FROM described WHERE parent_asin IN (SELECT parent_asin FROM repeated)
QUALIFY row_number() OVER (
    PARTITION BY parent_asin
    ORDER BY coalesce(trim(title), '') = '', title, description, features, details) = 1
ORDER BY parent_asin
