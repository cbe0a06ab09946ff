-- One row per query and purchase, out of {category: [[product, time, verified], ...]}.
SELECT query_id, split, user_id, positive_id, category,
       event ->> 0 AS product_id, try_cast(event ->> 1 AS BIGINT) AS timestamp, event,
       bought_in
FROM (
    SELECT * EXCLUDE (events), unnest(CAST(events AS JSON[])) AS event
    FROM (
        SELECT rows.* EXCLUDE (history), key AS bought_in, value AS events
        FROM rows, json_each(history)
    )
)
