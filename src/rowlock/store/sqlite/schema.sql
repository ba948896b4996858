-- The schema, by numbered steps: `control_N` once, `lane_N` for every lane. Steps are only ever added.

-- name: control_1
create table rowlock_meta (name text primary key, value) without rowid;
insert into rowlock_meta (name, value) values ('next_id', 1);
create table rowlock_entries (
    id integer primary key,
    kind text not null,
    name text not null,
    version integer not null,
    document text not null,
    created_at integer not null,
    owner text not null,
    parent integer
);
create unique index rowlock_entries_by_name on rowlock_entries (kind, name);
create index rowlock_entries_by_parent on rowlock_entries (parent, kind);
create table rowlock_leases (
    duty text primary key,
    holder integer not null,
    until integer not null
) without rowid;

-- name: lane_1
create table {lane}_writers (
    writer integer primary key,
    stamp integer not null,
    at integer not null
);
create table {lane}_partitions (
    part integer primary key,
    version integer not null,
    first integer not null,
    swept integer not null
);
create table {lane}_cursors (
    part integer not null,
    sub integer not null,
    version integer not null,
    primary key (part, sub)
) without rowid;
-- With a rowid on purpose. Messages per second inserted (batches, body; pages of 8 KiB, synchronous=FULL, 2 cores),
-- with a rowid against without: 321k / 328k (1,000 x 100 B), 50k / 49k (10 x 100 B), 214k / 219k (1,000 x 1 kB),
-- 47k / 39k (10 x 1 kB), 9.8k / 8.4k (50 x 60 kB; range reads of these 100k / 43k).
create table {lane}_messages (
    part integer not null,
    seq integer not null,
    id blob not null,
    accepted_at integer not null,
    published_at integer not null,
    expires_at integer,
    due_at integer,
    key text,
    attributes blob,
    origin blob,
    size integer not null,
    body blob not null,
    primary key (part, seq)
);
create table {lane}_pages (
    part integer not null,
    sub integer not null,
    page integer not null,
    era integer not null,
    stamp integer not null,
    frontier integer not null,
    outstanding integer not null,
    at integer not null,
    data blob,
    primary key (part, sub, page, era)
) without rowid;
create table {lane}_dedup (
    part integer not null,
    bucket integer not null,
    scope text not null,
    id text not null,
    message blob not null,
    seq integer not null,
    at integer not null,
    primary key (part, bucket, scope, id)
) without rowid;
create table {lane}_scheduled (
    part integer not null,
    due integer not null,
    id blob not null,
    accepted_at integer not null,
    expires_at integer,
    key text,
    attributes blob,
    size integer not null,
    body blob not null,
    primary key (part, due, id)
);
create table {lane}_delays (
    part integer primary key,
    waiting integer not null,
    next_due integer
);
create table {lane}_progress (
    move integer not null,
    part integer not null,
    moved integer not null,
    primary key (move, part)
) without rowid;
