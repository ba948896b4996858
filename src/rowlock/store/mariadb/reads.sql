-- What a lane locks and reads; {lane} is the prefix of its tables, %(..)s are literals made by literals.py.
--
-- Keys come as JSON_TABLEs, {numbers} and {pairs}, that a STRAIGHT_JOIN looks up one by one in their order: whatever the
-- size of a table and the age of its statistics. Left a choice, MariaDB reads a table of three rows whole, and so waits
-- for locks on rows that nobody asked for; with thousands of values in an IN list it gives up the key altogether.
-- To look up 1, 63 and 500 cursors took 79, 171 and 717 us so, and 71, 198 and 1,214 us by `(part, sub) IN (..)`.
-- FORCE INDEX is for the same reason.
--
-- Numbers that belong together come from a scalar subquery as one text: MariaDB has no LATERAL.

-- name: lock_partitions
SELECT p.part FROM {numbers} STRAIGHT_JOIN {lane}partitions p FORCE INDEX (PRIMARY) ON p.part = j.number FOR UPDATE

-- name: lock_cursors
SELECT c.part, c.sub
FROM {pairs} STRAIGHT_JOIN {lane}cursors c FORCE INDEX (PRIMARY) ON c.part = j.part AND c.sub = j.number FOR UPDATE

-- name: lock_cursors_of_parts
SELECT c.part, c.sub FROM {numbers} STRAIGHT_JOIN {lane}cursors c FORCE INDEX (PRIMARY) ON c.part = j.number FOR UPDATE

-- name: clock
-- SYSDATE is the time of its evaluation, NOW that of the statement's begin.
SELECT CAST(FLOOR(UNIX_TIMESTAMP(SYSDATE(6)) * 1000) AS SIGNED)

-- name: partitions
SELECT p.part, p.version, p.first, p.swept,
       (SELECT CONCAT_WS(',', m.seq, m.published_at) FROM {lane}messages m FORCE INDEX (PRIMARY)
        WHERE m.part = p.part ORDER BY m.seq DESC LIMIT 1),
       COALESCE(d.waiting, 0), d.next_due
FROM {numbers} STRAIGHT_JOIN {lane}partitions p FORCE INDEX (PRIMARY) ON p.part = j.number
LEFT JOIN {lane}delays d FORCE INDEX (PRIMARY) ON d.part = p.part

-- name: cursors
SELECT c.part, c.sub, c.version,
       (SELECT CONCAT_WS(',', h.page, h.era, h.stamp, h.frontier, h.outstanding, h.at)
        FROM {lane}pages h FORCE INDEX (PRIMARY)
        WHERE h.part = c.part AND h.sub = c.sub ORDER BY h.page DESC, h.era DESC LIMIT 1)
FROM {pairs} STRAIGHT_JOIN {lane}cursors c FORCE INDEX (PRIMARY) ON c.part = j.part AND c.sub = j.number

-- name: cursors_of_parts
SELECT c.part, c.sub, c.version,
       (SELECT CONCAT_WS(',', h.page, h.era, h.stamp, h.frontier, h.outstanding, h.at)
        FROM {lane}pages h FORCE INDEX (PRIMARY)
        WHERE h.part = c.part AND h.sub = c.sub ORDER BY h.page DESC, h.era DESC LIMIT 1)
FROM {numbers} STRAIGHT_JOIN {lane}cursors c FORCE INDEX (PRIMARY) ON c.part = j.number

-- name: pages
-- In the order of the key, which is the order of the loops; a sort would carry the data along.
SELECT g.part, g.sub, g.page, g.era, g.stamp, g.frontier, g.outstanding, g.at, %(data)s
FROM {pairs} STRAIGHT_JOIN {lane}pages g FORCE INDEX (PRIMARY) ON g.part = j.part AND g.sub = j.number

-- name: messages_range
-- The sums read sizes only, the running one where not everything fits: of 1,000 messages all took 0.70 ms without
-- a bound, 0.87 ms so, 1.29 ms with the running sum alone.
SELECT part, seq, id, accepted_at, published_at, expires_at, due_at, `key`, attributes, origin, size, body
FROM {lane}messages FORCE INDEX (PRIMARY)
WHERE part = %(part)s AND seq >= %(start)s AND seq < %(stop)s
  AND seq <= IF((SELECT SUM(size) FROM {lane}messages FORCE INDEX (PRIMARY)
                 WHERE part = %(part)s AND seq >= %(start)s AND seq < %(stop)s) <= %(bytes)s,
                %(stop)s,
                (SELECT MAX(s.seq) FROM (SELECT seq, size, SUM(size) OVER (ORDER BY seq) AS total
                                         FROM {lane}messages FORCE INDEX (PRIMARY)
                                         WHERE part = %(part)s AND seq >= %(start)s AND seq < %(stop)s) s
                 WHERE s.total <= %(bytes)s OR s.total = s.size))
ORDER BY seq

-- name: messages_chosen
SELECT m.part, m.seq, m.id, m.accepted_at, m.published_at, m.expires_at, m.due_at, m.`key`, m.attributes, m.origin,
       m.size, m.body
FROM {pairs} STRAIGHT_JOIN {lane}messages m FORCE INDEX (PRIMARY) ON m.part = j.part AND m.seq = j.number

-- name: first_row
SELECT seq FROM {lane}messages FORCE INDEX (PRIMARY) WHERE part = %(part)s AND seq >= %(start)s ORDER BY seq LIMIT 1

-- name: last_row
SELECT seq FROM {lane}messages FORCE INDEX (PRIMARY) WHERE part = %(part)s ORDER BY seq DESC LIMIT 1

-- name: first_live
-- The literal bound holds the scan within the steps: sequences are dense.
SELECT seq FROM {lane}messages FORCE INDEX (PRIMARY)
WHERE part = %(part)s AND seq >= %(start)s AND seq < %(stop)s AND (expires_at IS NULL OR expires_at > %(now)s)
ORDER BY seq LIMIT 1

-- name: last_looked_at
SELECT seq FROM {lane}messages FORCE INDEX (PRIMARY) WHERE part = %(part)s AND seq >= %(start)s AND seq < %(stop)s ORDER BY seq DESC LIMIT 1

-- name: published_at
-- The next row where one is missing: a step of retention may remove the oldest rows during the search.
SELECT published_at FROM {lane}messages FORCE INDEX (PRIMARY) WHERE part = %(part)s AND seq >= %(seq)s ORDER BY seq LIMIT 1

-- name: duplicates
SELECT d.part, d.bucket, CONVERT(d.scope USING utf8mb4), CONVERT(d.id USING utf8mb4), d.message, d.seq, d.at
FROM JSON_TABLE(%(keys)s, '$[*]' COLUMNS (
    part BIGINT PATH '$[0]', bucket BIGINT PATH '$[1]',
    scope VARCHAR(1280) PATH '$[2]', id VARCHAR(1280) PATH '$[3]')) j
STRAIGHT_JOIN {lane}dedup d FORCE INDEX (PRIMARY)
    ON d.part = j.part AND d.bucket = j.bucket AND d.scope = UNHEX(j.scope) AND d.id = UNHEX(j.id)

-- name: due
SELECT part, due, id, accepted_at, expires_at, `key`, attributes, size, body
FROM {lane}scheduled FORCE INDEX (PRIMARY) WHERE part = %(part)s AND due <= %(now)s ORDER BY due, id LIMIT %(limit)s

-- name: parts_due
-- The table has a row only for partitions with scheduled messages, so that reading all of it is cheap.
SELECT part FROM {lane}delays WHERE next_due <= %(now)s ORDER BY part

-- name: positions
SELECT c.part, c.sub, c.version, p.first,
       COALESCE((SELECT m.seq FROM {lane}messages m FORCE INDEX (PRIMARY)
                 WHERE m.part = c.part ORDER BY m.seq DESC LIMIT 1), 0),
       COALESCE(d.waiting, 0),
       COALESCE((SELECT CONCAT_WS(',', h.stamp, h.frontier, h.outstanding) FROM {lane}pages h FORCE INDEX (PRIMARY)
                 WHERE h.part = c.part AND h.sub = c.sub ORDER BY h.page DESC, h.era DESC LIMIT 1), '0,0,0')
FROM {pairs} STRAIGHT_JOIN {lane}cursors c FORCE INDEX (PRIMARY) ON c.part = j.part AND c.sub = j.number
STRAIGHT_JOIN {lane}partitions p FORCE INDEX (PRIMARY) ON p.part = c.part
LEFT JOIN {lane}delays d FORCE INDEX (PRIMARY) ON d.part = c.part

-- name: all_cursors
SELECT part, sub FROM {lane}cursors FORCE INDEX (PRIMARY)
WHERE part > %(part)s OR (part = %(part)s AND sub > %(sub)s) ORDER BY part, sub LIMIT %(limit)s

-- name: progress
SELECT CAST(COALESCE(SUM(moved), 0) AS SIGNED) FROM {lane}progress WHERE move = %(move)s

-- name: lock_turn
SELECT stamp FROM {lane}writers WHERE writer = %(writer)s FOR UPDATE

-- name: old_writers
-- Read without locks, then deleted by key: a scan that deletes would wait for the writers at work.
SELECT writer FROM {lane}writers WHERE at < %(before)s
