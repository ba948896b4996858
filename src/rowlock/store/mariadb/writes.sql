-- What a lane writes; {lane} is the prefix of its tables, %(..)s are literals made by literals.py.
--
-- DELETE has to be written so that it finds its rows by ranges of the key, also in a table of three rows: else it reads
-- all, and waits for rows that others have locked. MariaDB 10.11 does so for `DELETE t FROM t FORCE INDEX .. WHERE (a = 1
-- AND b = 2) OR ..`, and not for `.. WHERE (a, b) IN (..)` there, nor for `DELETE FROM t`, which takes no FORCE INDEX.

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
DELETE g FROM {lane}pages g FORCE INDEX (PRIMARY) WHERE %(keys)s

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
DELETE s FROM {lane}scheduled s FORCE INDEX (PRIMARY) WHERE %(keys)s

-- name: count_delayed
INSERT INTO {lane}delays (part, waiting) VALUES %(rows)s ON DUPLICATE KEY UPDATE waiting = waiting + VALUES(waiting)

-- name: next_due
UPDATE {lane}delays d FORCE INDEX (PRIMARY)
SET d.next_due = (SELECT s.due FROM {lane}scheduled s WHERE s.part = d.part ORDER BY s.due LIMIT 1)
WHERE d.part IN (%(parts)s)

-- name: forget_no_delay
DELETE d FROM {lane}delays d FORCE INDEX (PRIMARY) WHERE part IN (%(parts)s) AND waiting = 0 AND next_due IS NULL

-- name: count_progress
INSERT INTO {lane}progress (move, part, moved) VALUES %(rows)s ON DUPLICATE KEY UPDATE moved = moved + VALUES(moved)

-- name: put_partitions
INSERT INTO {lane}partitions (part, version, first, swept) VALUES %(rows)s
ON DUPLICATE KEY UPDATE version = VALUES(version), first = VALUES(first), swept = VALUES(swept)

-- name: put_cursors
INSERT INTO {lane}cursors (part, sub, version) VALUES %(rows)s ON DUPLICATE KEY UPDATE version = VALUES(version)

-- name: remove_partitions
DELETE p FROM {lane}partitions p FORCE INDEX (PRIMARY) WHERE part IN (%(parts)s)

-- name: remove_cursors
DELETE c FROM {lane}cursors c FORCE INDEX (PRIMARY) WHERE %(keys)s

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
DELETE w FROM {lane}writers w FORCE INDEX (PRIMARY) WHERE writer IN (%(writers)s) AND at < %(before)s
