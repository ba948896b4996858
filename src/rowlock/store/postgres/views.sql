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
create view rowlock_subscriptions as
select s.name, t.name as topic, l.part as partition, l.frontier, l.last, l.outstanding,
       greatest(l.last - l.frontier + 1, 0) + l.outstanding as lag
from ({ledgers}) l
join rowlock.catalog s on s.id = l.sub
left join rowlock.catalog p on p.id = l.part
left join rowlock.catalog t on t.id = p.parent;
create view rowlock_queues as
select s.name, count(*) as partitions, sum(v.last - v.frontier + 1) as waiting, sum(v.outstanding) as outstanding,
       sum(v.lag) as depth, to_timestamp(s.created_at / 1000.0) as created_at, s.owner
from rowlock_subscriptions v
join rowlock.catalog s on s.name = v.name and s.kind = 'subscription'
where v.topic = v.name
group by s.name, s.created_at, s.owner;
create view rowlock_messages as
select t.name as topic, m.part as partition, m.seq, encode(m.id, 'hex') as id, m.body,
       to_timestamp(m.published_at / 1000.0) as published_at
from ({messages}) m
left join rowlock.catalog p on p.id = m.part
left join rowlock.catalog t on t.id = p.parent
