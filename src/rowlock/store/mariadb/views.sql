-- Views for people, over all lanes. They are made anew whenever lanes are added; no code reads them.

-- name: ledgers_of_lane
SELECT c.part, c.sub, COALESCE(h.frontier, p.first) AS frontier, COALESCE(h.outstanding, 0) AS outstanding,
       COALESCE((SELECT MAX(m.seq) FROM {lane}messages m WHERE m.part = c.part), 0) AS last
FROM {lane}cursors c
JOIN {lane}partitions p ON p.part = c.part
LEFT JOIN {lane}pages h ON h.part = c.part AND h.sub = c.sub
    AND h.page = (SELECT MAX(g.page) FROM {lane}pages g WHERE g.part = c.part AND g.sub = c.sub)
    AND h.era = (SELECT MAX(g.era) FROM {lane}pages g WHERE g.part = c.part AND g.sub = c.sub AND g.page = h.page)

-- name: messages_of_lane
SELECT part, seq, id, body, published_at FROM {lane}messages

-- name: rowlock_subscriptions
CREATE OR REPLACE SQL SECURITY INVOKER VIEW rowlock_subscriptions
    (name, topic, `partition`, frontier, last, outstanding, `lag`) AS
SELECT CONVERT(s.name USING utf8mb4), CONVERT(t.name USING utf8mb4), l.part, l.frontier, l.last, l.outstanding,
       l.last + 1 - l.frontier + l.outstanding
FROM ({ledgers}) l
JOIN rowlock_entries s ON s.id = l.sub
LEFT JOIN rowlock_entries p ON p.id = l.part
LEFT JOIN rowlock_entries t ON t.id = p.parent

-- name: rowlock_queues
-- A queue is a topic and a subscription of the same name; what the subscription takes from other topics counts, too.
CREATE OR REPLACE SQL SECURITY INVOKER VIEW rowlock_queues (name, partitions, depth, outstanding) AS
SELECT s.name, COUNT(*), SUM(s.`lag`), SUM(s.outstanding)
FROM rowlock_subscriptions s
JOIN rowlock_entries t ON t.kind = 'topic' AND t.name = CAST(s.name AS BINARY)
GROUP BY s.name

-- name: rowlock_messages
CREATE OR REPLACE SQL SECURITY INVOKER VIEW rowlock_messages (topic, `partition`, seq, id, body, published_at) AS
SELECT CONVERT(t.name USING utf8mb4), m.part, m.seq, LOWER(HEX(m.id)), m.body,
       TIMESTAMP('1970-01-01') + INTERVAL m.published_at * 1000 MICROSECOND
FROM ({messages}) m
LEFT JOIN rowlock_entries p ON p.id = m.part
LEFT JOIN rowlock_entries t ON t.id = p.parent
