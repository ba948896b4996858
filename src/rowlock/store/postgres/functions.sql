-- The functions of one lane: what a cycle sends in one round trip. They hold no rule; they lock, compare and write.
-- In READ COMMITTED every statement inside them sees what the locks of the statements before it saw.
-- A list that is not needed comes as NULL: it costs nothing, where an empty array costs a microsecond.
-- Plans must not depend on how big the tables were when they were made: a table whose rows are looked up for a list is
-- joined by a correlated subquery that cannot be pulled up (a limit, an offset, for update), or, where rows are changed,
-- by `between x and x` instead of `= x`: so it can only be the inner side.

-- name: put_parameters
-- What one transaction writes, by column; `attempt` takes the same after what it compares.
    turn_writer bigint, turn_stamp bigint, previous_writer bigint, previous_stamp bigint,
    run_part bigint, run_seq bigint, run_at bigint, run_ids bytea,
    message_parts bigint[], message_seqs bigint[], message_ids bytea[], message_accepted bigint[],
    message_published bigint[], message_expires bigint[], message_due bigint[], message_keys text[],
    message_attributes bytea[], message_origins bytea[], message_sizes bigint[], message_bodies bytea[],
    new_pages bigint, page_parts bigint[], page_subs bigint[], page_pages bigint[], page_eras bigint[],
    page_stamps bigint[], page_frontiers bigint[], page_outstanding bigint[], page_at bigint[], page_data bytea[],
    page_was bigint[],
    drop_parts bigint[], drop_subs bigint[], drop_pages bigint[], drop_eras bigint[], drop_was bigint[],
    dedup_parts bigint[], dedup_buckets bigint[], dedup_scopes text[], dedup_ids text[], dedup_messages bytea[],
    dedup_seqs bigint[], dedup_at bigint[],
    scheduled_parts bigint[], scheduled_due bigint[], scheduled_ids bytea[], scheduled_accepted bigint[],
    scheduled_expires bigint[], scheduled_keys text[], scheduled_attributes bytea[], scheduled_sizes bigint[],
    scheduled_bodies bytea[],
    unscheduled_parts bigint[], unscheduled_due bigint[], unscheduled_ids bytea[],
    delay_parts bigint[], delay_changes bigint[],
    progress_moves bigint[], progress_parts bigint[], progress_moved bigint[],
    partition_parts bigint[], partition_versions bigint[], partition_firsts bigint[], partition_swept bigint[],
    cursor_parts bigint[], cursor_subs bigint[], cursor_versions bigint[],
    removed_partitions bigint[],
    removed_parts bigint[], removed_subs bigint[]

-- name: put
-- Messages come as one run (the sequences that follow run_seq in run_part, all accepted and published at run_at, a NULL
-- list of sizes where the bodies are all there is), or, where they are not alike, with a list for each column: the driver
-- looks at every element of a list, which was a fifth of the broker's time for batches.
-- Writes. RL001 says that what was to be replaced had changed: everything is rolled back.
-- The unnests stand in the select list: in FROM each would be copied to a tuplestore of its own first.
create or replace function {lane}.put_{code}(
    {put_parameters}
) returns void language plpgsql as $$
declare
    clock bigint := {clock};
    touched bigint;
begin
    if previous_writer = turn_writer then
        update {lane}.writers set stamp = turn_stamp, at = clock where writer = turn_writer and stamp = previous_stamp;
        if not found then
            raise exception 'the turn before was not the last one of writer %', turn_writer using errcode = 'RL001';
        end if;
    else
        if previous_writer is not null then
            delete from {lane}.writers where writer = previous_writer and stamp = previous_stamp;
            if not found then
                raise exception 'the turn before was not the last one of writer %', previous_writer
                    using errcode = 'RL001';
            end if;
        end if;
        insert into {lane}.writers (writer, stamp, at) values (turn_writer, turn_stamp, clock);
    end if;

    if run_part is not null then
        insert into {lane}.messages
            (part, seq, id, accepted_at, published_at, expires_at, due_at, key, attributes, origin, size, body)
        select run_part, run_seq + w.number, substring(run_ids from 16 * w.number + 1 for 16), run_at, run_at,
               w.expires_at, w.due_at, w.key, w.attributes, w.origin, coalesce(w.size, octet_length(w.body)), w.body
        from (select generate_subscripts(message_bodies, 1) - 1 as number, unnest(message_expires) as expires_at,
                     unnest(message_due) as due_at, unnest(message_keys) as key,
                     unnest(message_attributes) as attributes, unnest(message_origins) as origin,
                     unnest(message_sizes) as size, unnest(message_bodies) as body) w;
    elsif message_parts is not null then
        insert into {lane}.messages
            (part, seq, id, accepted_at, published_at, expires_at, due_at, key, attributes, origin, size, body)
        select unnest(message_parts), unnest(message_seqs), unnest(message_ids), unnest(message_accepted),
               unnest(message_published), unnest(message_expires), unnest(message_due), unnest(message_keys),
               unnest(message_attributes), unnest(message_origins), unnest(message_sizes), unnest(message_bodies);
    end if;

    if page_parts is not null then
        if new_pages < cardinality(page_parts) then
            update {lane}.pages p
            set stamp = w.stamp, frontier = w.frontier, outstanding = w.outstanding, at = w.at, data = w.data
            from (select unnest(page_parts) as part, unnest(page_subs) as sub, unnest(page_pages) as page,
                         unnest(page_eras) as era, unnest(page_stamps) as stamp, unnest(page_frontiers) as frontier,
                         unnest(page_outstanding) as outstanding, unnest(page_at) as at, unnest(page_data) as data,
                         unnest(page_was) as was) w
            where (p.part, p.sub, p.page, p.era)
                  between (w.part, w.sub, w.page, w.era) and (w.part, w.sub, w.page, w.era)
              and p.stamp = w.was and w.was <> 0;
            get diagnostics touched = row_count;
            if touched <> cardinality(page_parts) - new_pages then
                raise exception 'a page had changed: % of % were as expected', touched,
                    cardinality(page_parts) - new_pages using errcode = 'RL001';
            end if;
        end if;
        if new_pages > 0 then
            insert into {lane}.pages (part, sub, page, era, stamp, frontier, outstanding, at, data)
            select w.part, w.sub, w.page, w.era, w.stamp, w.frontier, w.outstanding, w.at, w.data
            from (select unnest(page_parts) as part, unnest(page_subs) as sub, unnest(page_pages) as page,
                         unnest(page_eras) as era, unnest(page_stamps) as stamp, unnest(page_frontiers) as frontier,
                         unnest(page_outstanding) as outstanding, unnest(page_at) as at, unnest(page_data) as data,
                         unnest(page_was) as was) w
            where w.was = 0;
        end if;
    end if;

    if drop_parts is not null then
        delete from {lane}.pages p
        using (select unnest(drop_parts) as part, unnest(drop_subs) as sub, unnest(drop_pages) as page,
                      unnest(drop_eras) as era, unnest(drop_was) as was) w
        where (p.part, p.sub, p.page, p.era) between (w.part, w.sub, w.page, w.era) and (w.part, w.sub, w.page, w.era)
          and p.stamp = w.was;
        get diagnostics touched = row_count;
        if touched <> cardinality(drop_parts) then
            raise exception 'a page to drop had changed: % of % were as expected', touched, cardinality(drop_parts)
                using errcode = 'RL001';
        end if;
    end if;

    if dedup_parts is not null then
        insert into {lane}.dedup (part, bucket, scope, id, message, seq, at)
        select unnest(dedup_parts), unnest(dedup_buckets), unnest(dedup_scopes), unnest(dedup_ids),
               unnest(dedup_messages), unnest(dedup_seqs), unnest(dedup_at)
        on conflict (part, bucket, scope, id) do update
        set message = excluded.message, seq = excluded.seq, at = excluded.at;
    end if;

    if scheduled_parts is not null then
        insert into {lane}.scheduled (part, due, id, accepted_at, expires_at, key, attributes, size, body)
        select unnest(scheduled_parts), unnest(scheduled_due), unnest(scheduled_ids), unnest(scheduled_accepted),
               unnest(scheduled_expires), unnest(scheduled_keys), unnest(scheduled_attributes),
               unnest(scheduled_sizes), unnest(scheduled_bodies);
    end if;

    if unscheduled_parts is not null then
        delete from {lane}.scheduled s
        using (select unnest(unscheduled_parts) as part, unnest(unscheduled_due) as due, unnest(unscheduled_ids) as id) w
        where (s.part, s.due, s.id) between (w.part, w.due, w.id) and (w.part, w.due, w.id);
    end if;

    if delay_parts is not null then
        insert into {lane}.delays as d (part, waiting, next_due)
        select w.part, w.change, (select s.due from {lane}.scheduled s where s.part = w.part order by s.due limit 1)
        from (select unnest(delay_parts) as part, unnest(delay_changes) as change) w
        on conflict (part) do update set waiting = d.waiting + excluded.waiting, next_due = excluded.next_due;
    end if;

    if progress_moves is not null then
        insert into {lane}.progress as p (move, part, moved)
        select unnest(progress_moves), unnest(progress_parts), unnest(progress_moved)
        on conflict (move, part) do update set moved = p.moved + excluded.moved;
    end if;

    if partition_parts is not null then
        insert into {lane}.partitions (part, version, first, swept)
        select unnest(partition_parts), unnest(partition_versions), unnest(partition_firsts), unnest(partition_swept)
        on conflict (part) do update
        set version = excluded.version, first = excluded.first, swept = excluded.swept;
    end if;

    if cursor_parts is not null then
        insert into {lane}.cursors (part, sub, version)
        select unnest(cursor_parts), unnest(cursor_subs), unnest(cursor_versions)
        on conflict (part, sub) do update set version = excluded.version;
    end if;

    if removed_partitions is not null then
        delete from {lane}.partitions p where p.part = any (removed_partitions);
    end if;

    if removed_parts is not null then
        delete from {lane}.cursors c
        using (select unnest(removed_parts) as part, unnest(removed_subs) as sub) w
        where (c.part, c.sub) between (w.part, w.sub) and (w.part, w.sub);
    end if;
end
$$;

-- name: attempt
-- Locks, compares, and writes if all agrees. Returns the clock: negative when something differs and nothing was written
-- (one number, because a row of two costs a tuplestore).
-- Lock rows carry their version, so locking and comparing that is one statement; a last sequence or a head read beside
-- the lock would be as old as the wait for it.
create or replace function {lane}.attempt_{code}(
    decided_at bigint,
    expected_parts bigint[], expected_versions bigint[], expected_lasts bigint[],
    ledger_parts bigint[], ledger_subs bigint[], ledger_versions bigint[], ledger_heads bigint[],
    unseen_parts bigint[], unseen_buckets bigint[], unseen_scopes text[], unseen_ids text[],
    {put_parameters}
) returns bigint language plpgsql as $$
declare
    clock bigint;
    locked bigint;
begin
    if expected_parts is not null then
        perform from (select unnest(expected_parts) as part, unnest(expected_versions) as version) w
        cross join lateral (
            select from {lane}.partitions p where p.part = w.part and p.version = w.version for update
        ) l;
        get diagnostics locked = row_count;
        if locked <> cardinality(expected_parts) then
            return -{clock};
        end if;
    end if;
    if ledger_parts is not null then
        perform from (select unnest(ledger_parts) as part, unnest(ledger_subs) as sub,
                             unnest(ledger_versions) as version) w
        cross join lateral (
            select from {lane}.cursors c
            where c.part = w.part and c.sub = w.sub and c.version = w.version for update
        ) l;
        get diagnostics locked = row_count;
        if locked <> cardinality(ledger_parts) then
            return -{clock};
        end if;
    end if;

    clock := {clock};
    if abs(clock - decided_at) > {clock_tolerance} then
        return -clock;
    end if;
    if expected_parts is not null then
        if exists (
            select from (select unnest(expected_parts) as part, unnest(expected_lasts) as last) w
            where w.last is not null and w.last <> coalesce(
                (select m.seq from {lane}.messages m where m.part = w.part order by m.seq desc limit 1), 0)
        ) then
            return -clock;
        end if;
    end if;
    if ledger_parts is not null then
        if exists (
            select from (select unnest(ledger_parts) as part, unnest(ledger_subs) as sub,
                                unnest(ledger_heads) as head) w
            where w.head <> coalesce(
                (select p.stamp from {lane}.pages p where p.part = w.part and p.sub = w.sub
                 order by p.page desc, p.era desc limit 1), 0)
        ) then
            return -clock;
        end if;
    end if;
    if unseen_parts is not null then
        if exists (
            select from (select unnest(unseen_parts) as part, unnest(unseen_buckets) as bucket,
                                unnest(unseen_scopes) as scope, unnest(unseen_ids) as id) w
            cross join lateral (
                select from {lane}.dedup d
                where d.part = w.part and d.bucket = w.bucket and d.scope = w.scope and d.id = w.id limit 1
            ) d
        ) then
            return -clock;
        end if;
    end if;
    perform {lane}.put_{code}({put_arguments});
    return clock;
end
$$;

-- name: attempt_one
-- The same for one caller with nothing beside it: at most one of each, in scalars and plain statements. That is a third
-- of the processor time of `attempt` (figures in docs/adr), and most of what a lone caller waits for besides the disk.
create or replace function {lane}.attempt_one_{code}(
    decided_at bigint,
    expected_part bigint, expected_version bigint, expected_last bigint,
    ledger_part bigint, ledger_sub bigint, ledger_version bigint, ledger_head bigint,
    turn_writer bigint, turn_stamp bigint, previous_stamp bigint,
    message_part bigint, message_seq bigint, message_id bytea, message_accepted bigint, message_published bigint,
    message_expires bigint, message_due bigint, message_key text, message_attributes bytea, message_origin bytea,
    message_size bigint, message_body bytea,
    page_part bigint, page_sub bigint, page_page bigint, page_era bigint, page_stamp bigint, page_frontier bigint,
    page_outstanding bigint, page_at bigint, page_data bytea, page_was bigint
) returns bigint language plpgsql as $$
declare
    clock bigint;
begin
    if expected_part is not null then
        perform from {lane}.partitions p where p.part = expected_part and p.version = expected_version for update;
        if not found then
            return -{clock};
        end if;
    end if;
    if ledger_part is not null then
        perform from {lane}.cursors c
        where c.part = ledger_part and c.sub = ledger_sub and c.version = ledger_version for update;
        if not found then
            return -{clock};
        end if;
    end if;

    clock := {clock};
    if abs(clock - decided_at) > {clock_tolerance} then
        return -clock;
    end if;
    if expected_last is not null then
        if expected_last <> coalesce(
            (select m.seq from {lane}.messages m where m.part = expected_part order by m.seq desc limit 1), 0)
        then
            return -clock;
        end if;
    end if;
    if ledger_part is not null then
        if ledger_head <> coalesce(
            (select p.stamp from {lane}.pages p where p.part = ledger_part and p.sub = ledger_sub
             order by p.page desc, p.era desc limit 1), 0)
        then
            return -clock;
        end if;
    end if;

    update {lane}.writers set stamp = turn_stamp, at = clock where writer = turn_writer and stamp = previous_stamp;
    if not found then
        raise exception 'the turn before was not the last one of writer %', turn_writer using errcode = 'RL001';
    end if;
    if message_part is not null then
        insert into {lane}.messages
            (part, seq, id, accepted_at, published_at, expires_at, due_at, key, attributes, origin, size, body)
        values (message_part, message_seq, message_id, message_accepted, message_published, message_expires,
                message_due, message_key, message_attributes, message_origin, message_size, message_body);
    end if;
    if page_part is not null then
        update {lane}.pages p
        set stamp = page_stamp, frontier = page_frontier, outstanding = page_outstanding, at = page_at, data = page_data
        where p.part = page_part and p.sub = page_sub and p.page = page_page and p.era = page_era
          and p.stamp = page_was;
        if not found then
            raise exception 'page % of subscription % in partition % had changed', page_page, page_sub, page_part
                using errcode = 'RL001';
        end if;
    end if;
    return clock;
end
$$;

-- name: lock
-- Locks in the one order (partitions, then cursors; the lists come sorted), and reads by later statements.
-- Rows are (what, numbers in the order of the port's struct, data): c clock, p partition, l cursor with its head, g page.
create or replace function {lane}.lock_{code}(
    lock_parts bigint[], lock_whole bigint[],
    ledger_parts bigint[], ledger_subs bigint[], known_heads bigint[], known_stamps text[]
) returns table (what "char", numbers bigint[], data bytea) language plpgsql as $$
declare
    cursor_parts bigint[];
    cursor_subs bigint[];
    cursor_heads bigint[];
    cursor_stamps text[];
begin
    if lock_parts is not null then
        perform from (select unnest(lock_parts) as part) w
        cross join lateral (select from {lane}.partitions p where p.part = w.part for update) l;
    end if;
    if lock_whole is not null or ledger_parts is not null then
        select array_agg(l.part), array_agg(l.sub), array_agg(l.head), array_agg(l.stamps)
        into cursor_parts, cursor_subs, cursor_heads, cursor_stamps
        from (
            select w.part, w.sub, w.head, w.stamps
            from (
                select unnest(ledger_parts) as part, unnest(ledger_subs) as sub,
                       unnest(known_heads) as head, unnest(known_stamps) as stamps
                union all
                select c.part, c.sub, null, null
                from (select unnest(lock_whole) as part) v
                cross join lateral (select o.part, o.sub from {lane}.cursors o where o.part = v.part offset 0) c
                where (c.part, c.sub) not in (select unnest(ledger_parts), unnest(ledger_subs))
                order by part, sub
            ) w
            cross join lateral (select from {lane}.cursors c where c.part = w.part and c.sub = w.sub for update) o
        ) l;
    end if;

    return query select 'c'::"char", array[{clock}], null::bytea;
    if lock_parts is not null or cursor_parts is not null then
        return query
        select 'p'::"char",
               array[p.part, p.version, p.first, p.swept, coalesce(m.seq, 0), coalesce(m.published_at, 0),
                     coalesce(d.waiting, 0), d.next_due],
               null::bytea
        from (select unnest(lock_parts) as part union select unnest(cursor_parts)) w
        cross join lateral (select p.* from {lane}.partitions p where p.part = w.part limit 1) p
        left join lateral (select d.* from {lane}.delays d where d.part = w.part limit 1) d on true
        left join lateral (
            select m.seq, m.published_at from {lane}.messages m where m.part = w.part order by m.seq desc limit 1
        ) m on true;
    end if;
    if cursor_parts is not null then
        return query
        select 'l'::"char",
               array[c.part, c.sub, c.version, h.page, h.era, h.stamp, h.frontier, h.outstanding, h.at],
               null::bytea
        from (select unnest(cursor_parts) as part, unnest(cursor_subs) as sub) w
        cross join lateral (select c.* from {lane}.cursors c where c.part = w.part and c.sub = w.sub limit 1) c
        left join lateral (
            select p.page, p.era, p.stamp, p.frontier, p.outstanding, p.at from {lane}.pages p
            where p.part = w.part and p.sub = w.sub order by p.page desc, p.era desc limit 1
        ) h on true;
        -- The first "offset 0" keeps the known stamps from being parsed again for every page.
        return query
        select 'g'::"char",
               array[p.part, p.sub, p.page, p.era, p.stamp, p.frontier, p.outstanding, p.at],
               case when p.stamp = any (w.stamps) then null else p.data end
        from (
            select v.part, v.sub, v.stamps::bigint[] as stamps
            from (select unnest(cursor_parts) as part, unnest(cursor_subs) as sub,
                         unnest(cursor_heads) as head, unnest(cursor_stamps) as stamps) v
            where v.head is distinct from coalesce(
                (select h.stamp from {lane}.pages h where h.part = v.part and h.sub = v.sub
                 order by h.page desc, h.era desc limit 1), 0)
            offset 0
        ) w
        cross join lateral (select g.* from {lane}.pages g where g.part = w.part and g.sub = w.sub offset 0) p
        order by w.part, w.sub, p.page, p.era;
    end if;
end
$$;

-- name: fence
-- Waits for whatever still holds the turn's rows, then says whether the turn was committed; if it was not, takes away
-- what it would have replaced (or takes its place), so that it never can be.
create or replace function {lane}.fence_{code}(
    turn_writer bigint, turn_stamp bigint, previous_writer bigint, previous_stamp bigint
) returns boolean language plpgsql as $$
declare
    found_stamp bigint;
begin
    if previous_writer is null then
        insert into {lane}.writers (writer, stamp, at) values (turn_writer, 0, {clock}) on conflict (writer) do nothing;
    else
        perform from {lane}.writers where writer = previous_writer for update;
    end if;
    select stamp into found_stamp from {lane}.writers where writer = turn_writer for update;
    if found_stamp = turn_stamp then
        return true;
    end if;
    delete from {lane}.writers where writer = previous_writer and stamp = previous_stamp;
    return false;
end
$$;

-- name: sequence_at
-- published_at never decreases within a partition, so that the first sequence at a time is found by bisection.
create or replace function {lane}.sequence_at_{code}(wanted_part bigint, wanted_time bigint)
returns bigint language plpgsql as $$
declare
    low bigint;
    high bigint;
    middle bigint;
    next_seq bigint;
    next_time bigint;
begin
    low := (select m.seq from {lane}.messages m where m.part = wanted_part order by m.seq limit 1);
    high := 1 + (select m.seq from {lane}.messages m where m.part = wanted_part order by m.seq desc limit 1);
    while low < high loop
        middle := low + (high - low) / 2;
        select m.seq, m.published_at into next_seq, next_time from {lane}.messages m
        where m.part = wanted_part and m.seq >= middle order by m.seq limit 1;
        if next_time >= wanted_time then
            high := middle;
        else
            low := next_seq + 1;
        end if;
    end loop;
    return coalesce(low, 1);
end
$$;
