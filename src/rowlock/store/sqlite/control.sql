-- The catalog's statements. Lists arrive as JSON arrays: SQLite has no array parameters.

-- name: allocate
update rowlock_meta set value = value + ? where name = 'next_id' returning value

-- name: find
select e.id, e.kind, e.name, e.version, e.document, e.created_at, e.owner, e.parent
from json_each(:names) wanted
cross join rowlock_entries e on e.kind = :kind and e.name = wanted.value

-- name: get
select e.id, e.kind, e.name, e.version, e.document, e.created_at, e.owner, e.parent
from json_each(?) wanted cross join rowlock_entries e on e.id = wanted.value

-- name: children
select e.id, e.kind, e.name, e.version, e.document, e.created_at, e.owner, e.parent
from json_each(:parents) wanted
cross join rowlock_entries e on e.parent = wanted.value and e.kind = :kind
order by e.id

-- name: list
-- The highest code point closes the range of names with the prefix, so that the index is read no further than that.
select id, kind, name, version, document, created_at, owner, parent
from rowlock_entries
where kind = :kind and name > :after and name >= :prefix and name < :prefix || char(1114111)
order by name limit :limit

-- name: insert
insert into rowlock_entries (id, kind, name, version, document, created_at, owner, parent)
values (?, ?, ?, ?, ?, ?, ?, ?) on conflict do nothing

-- name: replace
update or ignore rowlock_entries set name = ?, version = ?, document = ?, owner = ?, parent = ?
where id = ? and version = ?

-- name: remove
delete from rowlock_entries where id = ? and version = ?

-- name: make_secret
insert into rowlock_meta (name, value) values ('secret', ?) on conflict do nothing

-- name: secret
select value from rowlock_meta where name = 'secret'

-- name: lease
insert into rowlock_leases (duty, holder, until) values (:duty, :holder, :until)
on conflict (duty) do update set holder = excluded.holder, until = excluded.until
where holder = excluded.holder or until <= :now
