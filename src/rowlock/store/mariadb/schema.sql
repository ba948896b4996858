-- The schema, by numbered steps: `control_N` once, `lane_N` for every lane. Steps are only ever added.
-- MariaDB commits every one of these by itself, so each statement may be run again, also by two processes at once.
--
-- All tables live in one database, a lane's under a prefix: a user with rights on that database only can run it.
-- Texts that are compared are VARBINARY, so that case and trailing spaces count on every server.
-- Message keys are never compared in SQL, and may be a text.

-- name: control_1
CREATE TABLE IF NOT EXISTS rowlock_meta (
    name VARBINARY(64) NOT NULL PRIMARY KEY,
    number BIGINT,
    data VARBINARY(64)
) ENGINE = InnoDB;
INSERT IGNORE INTO rowlock_meta (name, number) VALUES ('next_id', 1);
CREATE TABLE IF NOT EXISTS rowlock_lanes (
    lane INT NOT NULL PRIMARY KEY,
    version INT NOT NULL
) ENGINE = InnoDB;
CREATE TABLE IF NOT EXISTS rowlock_entries (
    id BIGINT NOT NULL PRIMARY KEY,
    kind VARBINARY(32) NOT NULL,
    name VARBINARY(640) NOT NULL,
    version BIGINT NOT NULL,
    document MEDIUMBLOB NOT NULL,
    created_at BIGINT NOT NULL,
    owner VARBINARY(512) NOT NULL,
    parent BIGINT,
    UNIQUE KEY by_name (kind, name),
    KEY by_parent (parent, kind)
) ENGINE = InnoDB;
CREATE TABLE IF NOT EXISTS rowlock_applied (
    stamp BIGINT NOT NULL PRIMARY KEY,
    at BIGINT NOT NULL
) ENGINE = InnoDB;
CREATE TABLE IF NOT EXISTS rowlock_leases (
    duty VARBINARY(256) NOT NULL PRIMARY KEY,
    holder BIGINT NOT NULL,
    until BIGINT NOT NULL
) ENGINE = InnoDB

-- name: lane_1
CREATE TABLE IF NOT EXISTS {lane}writers (
    writer BIGINT NOT NULL PRIMARY KEY,
    stamp BIGINT NOT NULL,
    at BIGINT NOT NULL
) ENGINE = InnoDB;
CREATE TABLE IF NOT EXISTS {lane}partitions (
    part BIGINT NOT NULL PRIMARY KEY,
    version BIGINT NOT NULL,
    first BIGINT NOT NULL,
    swept BIGINT NOT NULL
) ENGINE = InnoDB;
CREATE TABLE IF NOT EXISTS {lane}cursors (
    part BIGINT NOT NULL,
    sub BIGINT NOT NULL,
    version BIGINT NOT NULL,
    PRIMARY KEY (part, sub)
) ENGINE = InnoDB;
CREATE TABLE IF NOT EXISTS {lane}messages (
    part BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    id BINARY(16) NOT NULL,
    accepted_at BIGINT NOT NULL,
    published_at BIGINT NOT NULL,
    expires_at BIGINT,
    due_at BIGINT,
    `key` VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
    attributes MEDIUMBLOB,
    origin MEDIUMBLOB,
    size INT NOT NULL,
    body MEDIUMBLOB NOT NULL,
    PRIMARY KEY (part, seq)
) ENGINE = InnoDB;
CREATE TABLE IF NOT EXISTS {lane}pages (
    part BIGINT NOT NULL,
    sub BIGINT NOT NULL,
    page BIGINT NOT NULL,
    era BIGINT NOT NULL,
    stamp BIGINT NOT NULL,
    frontier BIGINT NOT NULL,
    outstanding BIGINT NOT NULL,
    at BIGINT NOT NULL,
    data MEDIUMBLOB,
    PRIMARY KEY (part, sub, page, era)
) ENGINE = InnoDB;
CREATE TABLE IF NOT EXISTS {lane}dedup (
    part BIGINT NOT NULL,
    bucket BIGINT NOT NULL,
    scope VARBINARY(640) NOT NULL,
    id VARBINARY(640) NOT NULL,
    message BINARY(16) NOT NULL,
    seq BIGINT NOT NULL,
    at BIGINT NOT NULL,
    PRIMARY KEY (part, bucket, scope, id)
) ENGINE = InnoDB;
CREATE TABLE IF NOT EXISTS {lane}scheduled (
    part BIGINT NOT NULL,
    due BIGINT NOT NULL,
    id BINARY(16) NOT NULL,
    accepted_at BIGINT NOT NULL,
    expires_at BIGINT,
    `key` VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
    attributes MEDIUMBLOB,
    size INT NOT NULL,
    body MEDIUMBLOB NOT NULL,
    PRIMARY KEY (part, due, id)
) ENGINE = InnoDB;
CREATE TABLE IF NOT EXISTS {lane}delays (
    part BIGINT NOT NULL PRIMARY KEY,
    waiting BIGINT NOT NULL,
    next_due BIGINT
) ENGINE = InnoDB;
CREATE TABLE IF NOT EXISTS {lane}progress (
    move BIGINT NOT NULL,
    part BIGINT NOT NULL,
    moved BIGINT NOT NULL,
    PRIMARY KEY (move, part)
) ENGINE = InnoDB

-- name: tables
SHOW TABLES LIKE 'rowlock\_%'

-- name: versions
SELECT lane, version FROM rowlock_lanes ORDER BY lane

-- name: lane_done
INSERT INTO rowlock_lanes (lane, version) VALUES (%(lane)s, %(version)s)
ON DUPLICATE KEY UPDATE version = GREATEST(version, VALUES(version))

-- name: forget_applied
-- Nobody tries a change for longer than a day.
DELETE FROM rowlock_applied WHERE at < (UNIX_TIMESTAMP() - 86400) * 1000
