-- The schema in numbered steps that only add. A lane's steps are repeated for every lane, under the same numbers.

-- name: bootstrap
create schema if not exists rowlock;
create table if not exists rowlock.meta (name text primary key, number bigint not null);
insert into rowlock.meta (name, number) values ('schema_version', 0), ('lanes', 0), ('next_id', 1), ('catalog', 0)
on conflict (name) do nothing

-- name: control_1
create table rowlock.catalog (
    kind text collate "C" not null,
    id bigint primary key,
    name text collate "C" not null,
    version bigint not null,
    document text not null,
    created_at bigint not null,
    owner text not null,
    parent bigint,
    unique (kind, name)
);
create index on rowlock.catalog (kind, parent);
create table rowlock.leases (duty text primary key, holder bigint not null, until bigint not null);
create table rowlock.secrets (name text primary key, secret bytea not null)

-- name: lane_1
-- Rows of pages, writers and delays are rewritten all the time: free space on each page of the heap lets the new version
-- stand beside the old one (HOT), and autovacuum comes by numbers of rows, not by fractions of a table.
-- Fixed widths first, so that no row is padded in the middle. Bodies stay in the row up to 8 kB and are not compressed:
-- figures in docs/adr.
create schema {lane};
create table {lane}.messages (
    part bigint not null,
    seq bigint not null,
    accepted_at bigint not null,
    published_at bigint not null,
    expires_at bigint,
    due_at bigint,
    size integer not null,
    id bytea not null,
    key text collate "C",
    attributes bytea,
    origin bytea,
    body bytea not null,
    primary key (part, seq)
) with (toast_tuple_target = 8160);
alter table {lane}.messages alter column body set storage external;
create table {lane}.pages (
    part bigint not null,
    sub bigint not null,
    page bigint not null,
    era bigint not null,
    stamp bigint not null,
    frontier bigint not null,
    outstanding bigint not null,
    at bigint not null,
    data bytea not null,
    primary key (part, sub, page, era)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
        autovacuum_vacuum_cost_delay = 0);
-- At most 3.6 kB (128 grants), so that a row always fits its disk page: no toast table beside the hot one.
alter table {lane}.pages alter column data set storage plain;
create table {lane}.writers (
    writer bigint primary key,
    stamp bigint not null,
    at bigint not null
) with (fillfactor = 10, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0);
create table {lane}.partitions (
    part bigint primary key,
    version bigint not null,
    first bigint not null,
    swept bigint not null
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
create table {lane}.cursors (
    part bigint not null,
    sub bigint not null,
    version bigint not null,
    primary key (part, sub)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
create table {lane}.dedup (
    part bigint not null,
    bucket bigint not null,
    at bigint not null,
    seq bigint not null,
    message bytea not null,
    scope text collate "C" not null,
    id text collate "C" not null,
    primary key (part, bucket, scope, id)
);
create table {lane}.scheduled (
    part bigint not null,
    due bigint not null,
    accepted_at bigint not null,
    expires_at bigint,
    size integer not null,
    id bytea not null,
    key text collate "C",
    attributes bytea,
    body bytea not null,
    primary key (part, due, id)
) with (toast_tuple_target = 8160);
alter table {lane}.scheduled alter column body set storage external;
create table {lane}.delays (
    part bigint primary key,
    waiting bigint not null,
    next_due bigint
) with (fillfactor = 30, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
create table {lane}.progress (
    move bigint not null,
    part bigint not null,
    moved bigint not null,
    primary key (move, part)
) with (fillfactor = 30)
