-- The catalog's statements; %(..)s are literals made by literals.py. Names are bytes: they sort and compare bytewise.

-- name: allocate
UPDATE rowlock_meta SET number = LAST_INSERT_ID(number) + %(count)s WHERE name = 'next_id'

-- name: allocated
SELECT LAST_INSERT_ID()

-- name: find
SELECT {entry}
FROM JSON_TABLE(%(names)s, '$[*]' COLUMNS (name VARCHAR(1280) PATH '$')) j
STRAIGHT_JOIN rowlock_entries e ON e.kind = %(kind)s AND e.name = UNHEX(j.name)

-- name: get
SELECT {entry} FROM {numbers} STRAIGHT_JOIN rowlock_entries e ON e.id = j.number

-- name: children
SELECT {entry} FROM {numbers} STRAIGHT_JOIN rowlock_entries e ON e.parent = j.number AND e.kind = %(kind)s ORDER BY e.id

-- name: list
-- No byte of UTF-8 is 0xff: the range ends with the last name that has the prefix.
SELECT {entry} FROM rowlock_entries e
WHERE e.kind = %(kind)s AND e.name > %(after)s AND e.name >= %(prefix)s AND e.name < CONCAT(%(prefix)s, x'ff')
ORDER BY e.name LIMIT %(limit)s

-- name: apply
-- The first statement of every change. When COMMIT's answer was lost, the change is sent again with the same stamp:
-- it fails here where the first one took effect.
INSERT INTO rowlock_applied (stamp, at) VALUES (%(stamp)s, UNIX_TIMESTAMP() * 1000)

-- name: fence
-- See writes.sql.
SET @rowlock_fence = IF(ROW_COUNT() = 1, 1, (SELECT 1 UNION ALL SELECT 2))

-- name: remove
DELETE FROM rowlock_entries WHERE id = %(id)s AND version = %(version)s

-- name: replace
UPDATE rowlock_entries
SET name = %(name)s, version = %(version)s, document = %(document)s, owner = %(owner)s, parent = %(parent)s
WHERE id = %(id)s AND version = %(version)s - 1

-- name: insert
INSERT INTO rowlock_entries (id, kind, name, version, document, created_at, owner, parent)
VALUES (%(id)s, %(kind)s, %(name)s, %(version)s, %(document)s, %(created_at)s, %(owner)s, %(parent)s)

-- name: make_secret
INSERT IGNORE INTO rowlock_meta (name, data) VALUES ('secret', %(secret)s)

-- name: secret
SELECT data FROM rowlock_meta WHERE name = 'secret'

-- name: offer_lease
INSERT IGNORE INTO rowlock_leases (duty, holder, until) VALUES (%(duty)s, %(holder)s, 0)

-- name: take_lease
UPDATE rowlock_leases
SET holder = %(holder)s, until = UNIX_TIMESTAMP(SYSDATE(6)) * 1000 + %(milliseconds)s
WHERE duty = %(duty)s AND (holder = %(holder)s OR until <= UNIX_TIMESTAMP(SYSDATE(6)) * 1000)

-- name: clock
SELECT CAST(FLOOR(UNIX_TIMESTAMP(SYSDATE(6)) * 1000) AS SIGNED)
