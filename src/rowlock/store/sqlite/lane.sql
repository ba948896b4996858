-- One lane's statements; {lane} is the prefix of its tables. Lists of numbers arrive as JSON arrays.

-- name: partitions
select p.part, p.version, p.first, p.swept, coalesce(m.seq, 0), coalesce(m.published_at, 0),
       coalesce(d.waiting, 0), d.next_due
from json_each(?) wanted
cross join {lane}_partitions p on p.part = wanted.value
left join {lane}_messages m on m.part = p.part and m.seq = (select max(seq) from {lane}_messages where part = p.part)
left join {lane}_delays d on d.part = p.part

-- name: cursors_of_partitions
select c.part, c.sub from json_each(?) wanted cross join {lane}_cursors c on c.part = wanted.value

-- name: cursors
select c.part, c.sub, c.version, h.page, h.era, h.stamp, h.frontier, h.outstanding, h.at
from json_each(?) wanted
cross join {lane}_cursors c
  on c.part = json_extract(wanted.value, '$[0]') and c.sub = json_extract(wanted.value, '$[1]')
left join {lane}_pages h on h.part = c.part and h.sub = c.sub
  and (h.page, h.era) = (select page, era from {lane}_pages
                         where part = c.part and sub = c.sub order by page desc, era desc limit 1)

-- name: pages
select part, sub, page, era, stamp, frontier, outstanding, at, data
from {lane}_pages where part = ? and sub = ? order by page, era

-- name: messages_range
select part, seq, id, accepted_at, published_at, expires_at, due_at, key, attributes, origin, size, body
from {lane}_messages where part = ? and seq >= ? and seq < ? order by seq

-- name: messages_chosen
select m.part, m.seq, m.id, m.accepted_at, m.published_at, m.expires_at, m.due_at, m.key, m.attributes, m.origin,
       m.size, m.body
from json_each(?) wanted
cross join {lane}_messages m
  on m.part = json_extract(wanted.value, '$[0]') and m.seq = json_extract(wanted.value, '$[1]')

-- name: first_live
-- Columns before the body only: a large body lies on pages of its own, which this never reads.
select seq from (
    select seq, expires_at from {lane}_messages where part = :part and seq >= :start order by seq limit :steps
) where expires_at is null or expires_at > :now limit 1

-- name: last_looked_at
select max(seq) from (
    select seq from {lane}_messages where part = :part and seq >= :start order by seq limit :steps
)

-- name: duplicate
select part, bucket, scope, id, message, seq, at
from {lane}_dedup where part = ? and bucket = ? and scope = ? and id = ?

-- name: due
select part, due, id, accepted_at, expires_at, key, attributes, size, body
from {lane}_scheduled where part = ? and due <= ? order by due, id limit ?

-- name: parts_due
-- The table has a row only for partitions with scheduled messages, so that reading all of it is cheap.
select part from {lane}_delays where next_due <= ? order by part

-- name: positions
select c.part, c.sub, c.version, p.first,
       coalesce((select max(seq) from {lane}_messages where part = c.part), 0),
       coalesce(d.waiting, 0), coalesce(h.stamp, 0), coalesce(h.frontier, 0), coalesce(h.outstanding, 0)
from json_each(?) wanted
cross join {lane}_cursors c
  on c.part = json_extract(wanted.value, '$[0]') and c.sub = json_extract(wanted.value, '$[1]')
cross join {lane}_partitions p on p.part = c.part
left join {lane}_delays d on d.part = c.part
left join {lane}_pages h on h.part = c.part and h.sub = c.sub
  and (h.page, h.era) = (select page, era from {lane}_pages
                         where part = c.part and sub = c.sub order by page desc, era desc limit 1)

-- name: all_cursors
select part, sub from {lane}_cursors where (part, sub) > (?, ?) order by part, sub limit ?

-- name: bounds
select (select min(seq) from {lane}_messages where part = :part), (select max(seq) from {lane}_messages where part = :part)

-- name: published_at
-- The next row where one is missing: a step of retention may remove the oldest rows during the search.
select published_at from {lane}_messages where part = ? and seq >= ? order by seq limit 1

-- name: progress
select coalesce(sum(moved), 0) from {lane}_progress where move = ?

-- name: first_turn
insert into {lane}_writers (writer, stamp, at) values (?, ?, ?) on conflict do nothing

-- name: next_turn
update {lane}_writers set stamp = ?, at = ? where writer = ? and stamp = ?

-- name: end_writer
delete from {lane}_writers where writer = ? and stamp = ?

-- name: committed_turn
select 1 from {lane}_writers where writer = ? and stamp = ?

-- name: insert_message
insert into {lane}_messages
    (part, seq, id, accepted_at, published_at, expires_at, due_at, key, attributes, origin, size, body)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: insert_page
insert into {lane}_pages (part, sub, page, era, stamp, frontier, outstanding, at, data)
values (?, ?, ?, ?, ?, ?, ?, ?, ?) on conflict do nothing

-- name: replace_page
update {lane}_pages set stamp = ?, frontier = ?, outstanding = ?, at = ?, data = ?
where part = ? and sub = ? and page = ? and era = ? and stamp = ?

-- name: drop_page
delete from {lane}_pages where part = ? and sub = ? and page = ? and era = ? and stamp = ?

-- name: insert_duplicate
insert or replace into {lane}_dedup (part, bucket, scope, id, message, seq, at) values (?, ?, ?, ?, ?, ?, ?)

-- name: insert_scheduled
insert into {lane}_scheduled (part, due, id, accepted_at, expires_at, key, attributes, size, body)
values (?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: delete_scheduled
delete from {lane}_scheduled where part = ? and due = ? and id = ?

-- name: count_delayed
insert into {lane}_delays (part, waiting, next_due)
values (:part, :change, (select min(due) from {lane}_scheduled where part = :part))
on conflict (part) do update set waiting = waiting + excluded.waiting, next_due = excluded.next_due

-- name: forget_no_delay
delete from {lane}_delays where part = :part and waiting = 0 and next_due is null

-- name: count_progress
insert into {lane}_progress (move, part, moved) values (?, ?, ?)
on conflict (move, part) do update set moved = moved + excluded.moved

-- name: put_partition
insert into {lane}_partitions (part, version, first, swept) values (?, ?, ?, ?)
on conflict (part) do update set version = excluded.version, first = excluded.first, swept = excluded.swept

-- name: put_cursor
insert into {lane}_cursors (part, sub, version) values (?, ?, ?)
on conflict (part, sub) do update set version = excluded.version

-- name: remove_partition
delete from {lane}_partitions where part = ?

-- name: remove_cursor
delete from {lane}_cursors where part = ? and sub = ?

-- name: delete_messages
delete from {lane}_messages where part = ? and seq >= ? and seq < ?

-- name: deduplicated_below
-- Read first and deleted one by one: `delete ... in (select ...)` walks the whole bucket for every step.
select part, bucket, scope, id from {lane}_dedup where part = ? and bucket < ? order by bucket, scope, id limit ?

-- name: delete_duplicate
delete from {lane}_dedup where part = ? and bucket = ? and scope = ? and id = ?

-- name: remains_of_messages
delete from {lane}_messages where rowid in (
    select rowid from {lane}_messages where part = :part order by seq limit :limit)

-- name: remains_of_pages
delete from {lane}_pages where (part, sub, page, era) in (
    select part, sub, page, era from {lane}_pages where part = :part limit :limit)

-- name: remains_of_ledger
delete from {lane}_pages where (part, sub, page, era) in (
    select part, sub, page, era from {lane}_pages where part = :part and sub = :sub limit :limit)

-- name: remains_of_scheduled
delete from {lane}_scheduled where rowid in (
    select rowid from {lane}_scheduled where part = :part order by due limit :limit)

-- name: remains_of_delays
delete from {lane}_delays where part = :part and :limit > 0

-- name: delete_writers
delete from {lane}_writers where at < ?
