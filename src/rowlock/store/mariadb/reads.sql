-- What a lane locks and reads; {lane} is the prefix of its tables, %(..)s are literals made by literals.py.
--
-- FORCE INDEX keeps a statement off the whole table where that is small: a scan would wait for other partitions' locks.
-- A row of numbers that belong together comes from a scalar subquery as one text: MariaDB has no LATERAL.

-- name: lock_partitions
SELECT part FROM {lane}partitions FORCE INDEX (PRIMARY) WHERE part IN (%(parts)s) ORDER BY part FOR UPDATE

-- name: lock_cursors
SELECT part, sub FROM {lane}cursors FORCE INDEX (PRIMARY) WHERE %(cursors)s ORDER BY part, sub FOR UPDATE

-- name: clock
-- SYSDATE is the time of its evaluation, NOW that of the statement's begin.
SELECT CAST(FLOOR(UNIX_TIMESTAMP(SYSDATE(6)) * 1000) AS SIGNED)

-- name: partitions
SELECT p.part, p.version, p.first, p.swept,
       (SELECT CONCAT_WS(',', m.seq, m.published_at) FROM {lane}messages m
        WHERE m.part = p.part ORDER BY m.seq DESC LIMIT 1),
       COALESCE(d.waiting, 0), d.next_due
FROM {lane}partitions p FORCE INDEX (PRIMARY)
LEFT JOIN {lane}delays d ON d.part = p.part
WHERE p.part IN (%(parts)s)

-- name: cursors
SELECT part, sub, version,
       (SELECT CONCAT_WS(',', h.page, h.era, h.stamp, h.frontier, h.outstanding, h.at) FROM {lane}pages h
        WHERE h.part = c.part AND h.sub = c.sub ORDER BY h.page DESC, h.era DESC LIMIT 1)
FROM {lane}cursors c FORCE INDEX (PRIMARY) WHERE %(cursors)s

-- name: pages
SELECT part, sub, page, era, stamp, frontier, outstanding, at, %(data)s
FROM {lane}pages FORCE INDEX (PRIMARY) WHERE (part, sub) IN (%(cursors)s) ORDER BY part, sub, page, era

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
SELECT part, seq, id, accepted_at, published_at, expires_at, due_at, `key`, attributes, origin, size, body
FROM {lane}messages FORCE INDEX (PRIMARY) WHERE (part, seq) IN (%(seqs)s)

-- name: first_row
SELECT seq FROM {lane}messages WHERE part = %(part)s AND seq >= %(start)s ORDER BY seq LIMIT 1

-- name: last_row
SELECT seq FROM {lane}messages WHERE part = %(part)s ORDER BY seq DESC LIMIT 1

-- name: first_live
-- The literal bound holds the scan within the steps: sequences are dense.
SELECT seq FROM {lane}messages FORCE INDEX (PRIMARY)
WHERE part = %(part)s AND seq >= %(start)s AND seq < %(stop)s AND (expires_at IS NULL OR expires_at > %(now)s)
ORDER BY seq LIMIT 1

-- name: last_looked_at
SELECT seq FROM {lane}messages WHERE part = %(part)s AND seq >= %(start)s AND seq < %(stop)s ORDER BY seq DESC LIMIT 1

-- name: published_at
-- The next row where one is missing: a step of retention may remove the oldest rows during the search.
SELECT published_at FROM {lane}messages WHERE part = %(part)s AND seq >= %(seq)s ORDER BY seq LIMIT 1

-- name: duplicates
SELECT part, bucket, CONVERT(scope USING utf8mb4), CONVERT(id USING utf8mb4), message, seq, at
FROM {lane}dedup FORCE INDEX (PRIMARY) WHERE (part, bucket, scope, id) IN (%(keys)s)

-- name: due
SELECT part, due, id, accepted_at, expires_at, `key`, attributes, size, body
FROM {lane}scheduled FORCE INDEX (PRIMARY) WHERE part = %(part)s AND due <= %(now)s ORDER BY due, id LIMIT %(limit)s

-- name: parts_due
-- The table has a row only for partitions with scheduled messages, so that reading all of it is cheap.
SELECT part FROM {lane}delays WHERE next_due <= %(now)s ORDER BY part

-- name: positions
SELECT c.part, c.sub, c.version, p.first,
       COALESCE((SELECT m.seq FROM {lane}messages m WHERE m.part = c.part ORDER BY m.seq DESC LIMIT 1), 0),
       COALESCE(d.waiting, 0),
       COALESCE((SELECT CONCAT_WS(',', h.stamp, h.frontier, h.outstanding) FROM {lane}pages h
                 WHERE h.part = c.part AND h.sub = c.sub ORDER BY h.page DESC, h.era DESC LIMIT 1), '0,0,0')
FROM {lane}cursors c FORCE INDEX (PRIMARY)
JOIN {lane}partitions p ON p.part = c.part
LEFT JOIN {lane}delays d ON d.part = c.part
WHERE (c.part, c.sub) IN (%(cursors)s)

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
