-- What a lane calls, reads and deletes. Every statement names its parts and is answered from a primary key: what is
-- looked up for a list stands in a LATERAL subquery with a limit, which the planner cannot turn around.

-- name: attempt
select {lane}.attempt_{code}({attempt_numbers})

-- name: attempt_one
select {lane}.attempt_one_{code}({attempt_one_numbers})

-- name: put
select {lane}.put_{code}({put_numbers})

-- name: lock
select what, numbers, data from {lane}.lock_{code}($1, $2, $3, $4, $5, $6)

-- name: fence
select {lane}.fence_{code}($1, $2, $3, $4)

-- name: ranges
-- The window adds up sizes, not bodies: a body beyond the bound is not read from its toast table.
select part, seq, id, accepted_at, published_at, expires_at, due_at, key, attributes, origin, size, body
from (select unnest($1::bigint[]) as wanted, unnest($2::bigint[]) as start, unnest($3::bigint[]) as stop,
             unnest($4::bigint[]) as bytes) w
cross join lateral (
    select m.*, sum(m.size) over (order by m.seq rows unbounded preceding) as total
    from {lane}.messages m where m.part = w.wanted and m.seq >= w.start and m.seq < w.stop
    order by m.seq
) r
where total <= bytes or total = size

-- name: single
select m.part, m.seq, m.id, m.accepted_at, m.published_at, m.expires_at, m.due_at, m.key, m.attributes, m.origin,
       m.size, m.body
from (select unnest($1::bigint[]) as part, unnest($2::bigint[]) as seq) w
cross join lateral (select m.* from {lane}.messages m where m.part = w.part and m.seq = w.seq limit 1) m

-- name: first_live
with next as not materialized (
    select m.seq, m.expires_at from {lane}.messages m where m.part = $1 and m.seq >= $2 order by m.seq limit $3
), live as materialized (
    select n.seq from next n where n.expires_at is null or n.expires_at > $4 order by n.seq limit 1
)
select seq, true from live
union all
select coalesce((select max(n.seq) + 1 from next n), $2), false where not exists (select from live)

-- name: duplicates
select d.part, d.bucket, d.scope, d.id, d.message, d.seq, d.at
from (select unnest($1::bigint[]) as part, unnest($2::bigint[]) as bucket, unnest($3::text[]) as scope,
             unnest($4::text[]) as id) w
cross join lateral (
    select d.* from {lane}.dedup d
    where d.part = w.part and d.bucket = w.bucket and d.scope = w.scope and d.id = w.id limit 1
) d

-- name: due
select part, due, id, accepted_at, expires_at, key, attributes, size, body
from {lane}.scheduled where part = $1 and due <= $2 order by due, id limit $3

-- name: parts_due
select part from {lane}.delays where next_due <= $1 order by part

-- name: positions
select c.part, c.sub, c.version, p.first, coalesce(m.seq, 0), coalesce(d.waiting, 0), coalesce(h.stamp, 0),
       coalesce(h.frontier, 0), coalesce(h.outstanding, 0)
from (select unnest($1::bigint[]) as part, unnest($2::bigint[]) as sub) w
cross join lateral (select c.* from {lane}.cursors c where c.part = w.part and c.sub = w.sub limit 1) c
cross join lateral (select p.* from {lane}.partitions p where p.part = w.part limit 1) p
left join lateral (select d.* from {lane}.delays d where d.part = w.part limit 1) d on true
left join lateral (select m.seq from {lane}.messages m where m.part = w.part order by m.seq desc limit 1) m on true
left join lateral (
    select g.stamp, g.frontier, g.outstanding from {lane}.pages g where g.part = w.part and g.sub = w.sub
    order by g.page desc, g.era desc limit 1
) h on true

-- name: all_cursors
select part, sub from {lane}.cursors where (part, sub) > ($1, $2) order by part, sub limit $3

-- name: partition_rows
select p.part, p.version, p.first, p.swept, coalesce(m.seq, 0), coalesce(m.published_at, 0), coalesce(d.waiting, 0),
       d.next_due
from (select unnest($1::bigint[]) as part) w
cross join lateral (select p.* from {lane}.partitions p where p.part = w.part limit 1) p
left join lateral (select d.* from {lane}.delays d where d.part = w.part limit 1) d on true
left join lateral (
    select m.seq, m.published_at from {lane}.messages m where m.part = w.part order by m.seq desc limit 1
) m on true

-- name: pages
select part, sub, page, era, stamp, frontier, outstanding, at, data
from {lane}.pages where part = $1 and sub = $2 order by page, era

-- name: sequence_at
select {lane}.sequence_at_{code}($1, $2)

-- name: progress
select coalesce(sum(moved), 0)::bigint from {lane}.progress where move = $1

-- name: clock
select {clock}

-- name: delete_messages
delete from {lane}.messages where part = $1 and seq >= $2 and seq < $3

-- name: delete_deduplicated
delete from {lane}.dedup where ctid = any (array(
    select d.ctid from {lane}.dedup d where d.part = $1 and d.bucket < $2 order by d.bucket limit $3
))

-- name: delete_ledger
delete from {lane}.pages where ctid = any (array(
    select g.ctid from {lane}.pages g where g.part = $1 and g.sub = $2 limit $3
))

-- name: delete_part_of
delete from {lane}.{table} where ctid = any (array(
    select r.ctid from {lane}.{table} r where r.part = $1 limit $2
))

-- name: delete_writers
delete from {lane}.writers where at < $1
