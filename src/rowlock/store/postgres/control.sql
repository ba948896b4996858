-- The catalog and the few other control tables. Nothing here is on a message's path.

-- name: apply_function
-- Compare and swap of documents, one change at a time (the lock), so that comparing first is enough.
create or replace function rowlock.apply(
    insert_kinds text[], insert_ids bigint[], insert_names text[], insert_versions bigint[], insert_documents text[],
    insert_created bigint[], insert_owners text[], insert_parents bigint[],
    replace_kinds text[], replace_ids bigint[], replace_names text[], replace_versions bigint[],
    replace_documents text[], replace_created bigint[], replace_owners text[], replace_parents bigint[],
    remove_ids bigint[], remove_versions bigint[]
) returns boolean language plpgsql as $$
begin
    perform from rowlock.meta where name = 'catalog' for update;
    if exists (
        select from (select unnest(insert_kinds) as kind, unnest(insert_ids) as id, unnest(insert_names) as name) w
        join rowlock.catalog c on c.id = w.id or (c.kind = w.kind and c.name = w.name)
        where remove_ids is null or c.id <> all (remove_ids)
    ) or exists (
        select from (select unnest(replace_ids) as id, unnest(replace_versions) as version) w
        left join rowlock.catalog c on c.id = w.id
        where c.version is distinct from w.version - 1
    ) or exists (
        select from (select unnest(remove_ids) as id, unnest(remove_versions) as version) w
        left join rowlock.catalog c on c.id = w.id
        where c.version is distinct from w.version
    ) then
        return false;
    end if;
    delete from rowlock.catalog c where c.id = any (remove_ids);
    update rowlock.catalog c
    set name = w.name, version = w.version, document = w.document, owner = w.owner, parent = w.parent
    from (select unnest(replace_ids) as id, unnest(replace_names) as name, unnest(replace_versions) as version,
                 unnest(replace_documents) as document, unnest(replace_owners) as owner,
                 unnest(replace_parents) as parent) w
    where c.id = w.id;
    insert into rowlock.catalog (kind, id, name, version, document, created_at, owner, parent)
    select unnest(insert_kinds), unnest(insert_ids), unnest(insert_names), unnest(insert_versions),
           unnest(insert_documents), unnest(insert_created), unnest(insert_owners), unnest(insert_parents);
    return true;
end
$$;

-- name: apply
select rowlock.apply($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)

-- name: allocate
update rowlock.meta set number = number + $1 where name = 'next_id' returning number - $1

-- name: find
select kind, id, name, version, document, created_at, owner, parent
from rowlock.catalog where kind = $1 and name = any ($2)

-- name: get
select kind, id, name, version, document, created_at, owner, parent from rowlock.catalog where id = any ($1)

-- name: children
select kind, id, name, version, document, created_at, owner, parent
from rowlock.catalog where kind = $1 and parent = any ($2) order by id

-- name: list
select kind, id, name, version, document, created_at, owner, parent
from rowlock.catalog where kind = $1 and name >= $2 and name > $3 and starts_with(name, $2) order by name limit $4

-- name: make_secret
insert into rowlock.secrets (name, secret) values ('receipts', $1) on conflict (name) do nothing

-- name: secret
select secret from rowlock.secrets where name = 'receipts'

-- name: lease
insert into rowlock.leases as l (duty, holder, until) values ($1, $2, {clock} + $3)
on conflict (duty) do update set holder = excluded.holder, until = excluded.until
where l.holder = excluded.holder or l.until < {clock}
returning true

-- name: clock
select {clock}
