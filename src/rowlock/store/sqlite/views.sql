-- Views for people. They are made anew whenever the schema or the number of lanes changes; no code reads them.

-- name: ledgers_of_lane
select c.part, c.sub, coalesce(h.frontier, p.first) as frontier, coalesce(h.outstanding, 0) as outstanding,
       coalesce((select max(seq) from {lane}_messages where part = c.part), 0) as last
from {lane}_cursors c
join {lane}_partitions p on p.part = c.part
left join {lane}_pages h on h.part = c.part and h.sub = c.sub
  and (h.page, h.era) = (select page, era from {lane}_pages
                         where part = c.part and sub = c.sub order by page desc, era desc limit 1)

-- name: messages_of_lane
select part, seq, id, body, published_at from {lane}_messages

-- name: rowlock_subscriptions
create view rowlock_subscriptions (name, topic, partition, frontier, last, outstanding, lag) as
select s.name, t.name, l.part, l.frontier, l.last, l.outstanding, l.last + 1 - l.frontier + l.outstanding
from ({ledgers}) l
join rowlock_entries s on s.id = l.sub
left join rowlock_entries p on p.id = l.part
left join rowlock_entries t on t.id = p.parent

-- name: rowlock_queues
-- A queue is a topic and a subscription of the same name; what the subscription takes from other topics counts, too.
create view rowlock_queues (name, partitions, depth, outstanding) as
select name, count(*), sum(lag), sum(outstanding)
from rowlock_subscriptions
where name in (select name from rowlock_entries where kind = 'topic')
group by name

-- name: rowlock_messages
create view rowlock_messages (topic, partition, seq, id, body, published_at) as
select t.name, m.part, m.seq, lower(hex(m.id)), m.body,
       strftime('%Y-%m-%d %H:%M:%f', m.published_at / 1000.0, 'unixepoch')
from ({messages}) m
left join rowlock_entries p on p.id = m.part
left join rowlock_entries t on t.id = p.parent
