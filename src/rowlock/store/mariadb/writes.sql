-- What a lane writes; {lane} is the prefix of its tables, %(..)s are literals made by literals.py.
-- Keys are looked up one by one as in reads.sql, and for the same reasons: of the forms of DELETE by a list of keys this
-- is the only one that MariaDB 10.11 never turns into a scan.

-- name: fence
-- Fails with error 1242 unless the statement before it found so many rows, and then the packet's COMMIT is not reached.
-- SET, since DO swallows errors and SELECT has a result to send.
SET @rowlock_fence = IF(ROW_COUNT() = %(count)s, 1, (SELECT 1 UNION ALL SELECT 2))

-- name: first_turn
INSERT INTO {lane}writers (writer, stamp, at) VALUES (%(writer)s, %(stamp)s, %(at)s)

-- name: next_turn
UPDATE {lane}writers SET stamp = %(stamp)s, at = %(at)s WHERE writer = %(writer)s AND stamp = %(previous)s

-- name: end_writer
DELETE FROM {lane}writers WHERE writer = %(writer)s AND stamp = %(stamp)s

-- name: remove_pages
-- A page that is replaced is deleted and inserted: two statements for all pages. Per cycle of 1, 63 and 500 pages of
-- 115 B: 0.13, 0.63 and 4.1 ms; with an UPDATE and a fence for each page: 0.10, 1.34 and 13.9 ms.
DELETE g FROM JSON_TABLE(%(keys)s, '$[*]' COLUMNS (
    part BIGINT PATH '$[0]', sub BIGINT PATH '$[1]', page BIGINT PATH '$[2]', era BIGINT PATH '$[3]',
    stamp BIGINT PATH '$[4]')) j
STRAIGHT_JOIN {lane}pages g FORCE INDEX (PRIMARY)
    ON g.part = j.part AND g.sub = j.sub AND g.page = j.page AND g.era = j.era AND g.stamp = j.stamp

-- name: insert_pages
INSERT INTO {lane}pages (part, sub, page, era, stamp, frontier, outstanding, at, data) VALUES %(rows)s

-- name: insert_messages
INSERT INTO {lane}messages
    (part, seq, id, accepted_at, published_at, expires_at, due_at, `key`, attributes, origin, size, body)
VALUES %(rows)s

-- name: insert_messages_bulk
-- With the columns that have a value in some row.
INSERT INTO {lane}messages (%(columns)s) VALUES (%(marks)s)

-- name: insert_deduplicated
REPLACE INTO {lane}dedup (part, bucket, scope, id, message, seq, at) VALUES %(rows)s

-- name: insert_scheduled
INSERT INTO {lane}scheduled (part, due, id, accepted_at, expires_at, `key`, attributes, size, body) VALUES %(rows)s

-- name: delete_scheduled
DELETE s FROM JSON_TABLE(%(keys)s, '$[*]' COLUMNS (
    part BIGINT PATH '$[0]', due BIGINT PATH '$[1]', id CHAR(32) PATH '$[2]')) j
STRAIGHT_JOIN {lane}scheduled s FORCE INDEX (PRIMARY) ON s.part = j.part AND s.due = j.due AND s.id = UNHEX(j.id)

-- name: count_delayed
INSERT INTO {lane}delays (part, waiting) VALUES %(rows)s ON DUPLICATE KEY UPDATE waiting = waiting + VALUES(waiting)

-- name: next_due
UPDATE {numbers} STRAIGHT_JOIN {lane}delays d FORCE INDEX (PRIMARY) ON d.part = j.number
SET d.next_due = (SELECT s.due FROM {lane}scheduled s FORCE INDEX (PRIMARY)
                  WHERE s.part = j.number ORDER BY s.due LIMIT 1)

-- name: forget_no_delay
DELETE d FROM {numbers} STRAIGHT_JOIN {lane}delays d FORCE INDEX (PRIMARY)
    ON d.part = j.number AND d.waiting = 0 AND d.next_due IS NULL

-- name: count_progress
INSERT INTO {lane}progress (move, part, moved) VALUES %(rows)s ON DUPLICATE KEY UPDATE moved = moved + VALUES(moved)

-- name: put_partitions
INSERT INTO {lane}partitions (part, version, first, swept) VALUES %(rows)s
ON DUPLICATE KEY UPDATE version = VALUES(version), first = VALUES(first), swept = VALUES(swept)

-- name: put_cursors
INSERT INTO {lane}cursors (part, sub, version) VALUES %(rows)s ON DUPLICATE KEY UPDATE version = VALUES(version)

-- name: remove_partitions
DELETE p FROM {numbers} STRAIGHT_JOIN {lane}partitions p FORCE INDEX (PRIMARY) ON p.part = j.number

-- name: remove_cursors
DELETE c FROM {pairs} STRAIGHT_JOIN {lane}cursors c FORCE INDEX (PRIMARY) ON c.part = j.part AND c.sub = j.number

-- name: delete_messages
DELETE m FROM {lane}messages m FORCE INDEX (PRIMARY)
WHERE part = %(part)s AND seq >= %(start)s AND seq < %(stop)s

-- name: delete_deduplicated
DELETE FROM {lane}dedup WHERE part = %(part)s AND bucket < %(bucket)s ORDER BY part, bucket LIMIT %(limit)s

-- name: delete_remains
DELETE FROM {lane}%(table)s WHERE part = %(part)s LIMIT %(limit)s

-- name: delete_pages
DELETE FROM {lane}pages WHERE part = %(part)s AND sub = %(sub)s LIMIT %(limit)s

-- name: delete_writers
DELETE w FROM {numbers} STRAIGHT_JOIN {lane}writers w FORCE INDEX (PRIMARY)
    ON w.writer = j.number AND w.at < %(before)s