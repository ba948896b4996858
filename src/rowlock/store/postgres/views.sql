-- Views for people and their SQL clients, over all lanes, in the connection's default schema. Nothing in Rowlock reads
-- them. Partitions and subscriptions are catalog entries whose ids stand in the lanes; a partition's parent is its topic.

-- name: lane_ledgers
select c.part, c.sub, coalesce(h.frontier, p.first) as frontier, coalesce(m.seq, 0) as last,
       coalesce(h.outstanding, 0) as outstanding
from {lane}.cursors c
join {lane}.partitions p on p.part = c.part
left join lateral (select m.seq from {lane}.messages m where m.part = c.part order by m.seq desc limit 1) m on true
left join lateral (
    select g.frontier, g.outstanding from {lane}.pages g where g.part = c.part and g.sub = c.sub
    order by g.page desc, g.era desc limit 1
) h on true

-- name: lane_messages
select part, seq, id, body, published_at from {lane}.messages

-- name: views
-- A queue is a topic and a subscription of the same name; what the subscription takes from other topics counts, too.
create view rowlock_subscriptions as
select s.name, t.name as topic, l.part as partition, l.frontier, l.last, l.outstanding,
       l.last + 1 - l.frontier + l.outstanding as lag
from ({ledgers}) l
join rowlock.catalog s on s.id = l.sub
left join rowlock.catalog p on p.id = l.part
left join rowlock.catalog t on t.id = p.parent;
create view rowlock_queues as
select v.name, count(*) as partitions, sum(v.lag)::bigint as depth, sum(v.outstanding)::bigint as outstanding
from rowlock_subscriptions v
where v.name in (select name from rowlock.catalog where kind = 'topic')
group by v.name;
create view rowlock_messages as
select t.name as topic, m.part as partition, m.seq, encode(m.id, 'hex') as id, m.body,
       to_timestamp(m.published_at / 1000.0) as published_at
from ({messages}) m
left join rowlock.catalog p on p.id = m.part
left join rowlock.catalog t on t.id = p.parent
