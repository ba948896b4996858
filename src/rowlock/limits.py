"""Every limit in one place, each with its unit last in its name."""

# Names and texts
NAME_CHARS = 80
KEY_CHARS = 128
DEDUPLICATION_ID_CHARS = 128
OWNER_CHARS = 128
ATTRIBUTES_COUNT = 64
ATTRIBUTE_NAME_CHARS = 256

# Messages
MESSAGE_DEFAULT_BYTES = 4 * 1024
MESSAGE_MAX_BYTES = 1024 * 1024
PUBLISH_BATCH_MESSAGES = 10_000
DELAY_MAX_SECONDS = 366 * 24 * 3600
EXPIRY_MAX_SECONDS = 3660 * 24 * 3600

# Claims
CLAIM_BATCH_MESSAGES = 1_000
SETTLE_BATCH_RECEIPTS = 10_000
VISIBILITY_MAX_SECONDS = 12 * 3600
WAIT_MAX_SECONDS = 20
IN_FLIGHT_DEFAULT_MESSAGES = 120_000
IN_FLIGHT_MAX_MESSAGES = 1_000_000
LOOK_AHEAD_DEFAULT_MESSAGES = 20_000
LOOK_AHEAD_MAX_MESSAGES = 200_000
RECEIVES_MAX_COUNT = 1_000
WAITERS_PER_PROCESS_COUNT = 100_000
FAIR_FREE_MESSAGES = 10
"""A key may hold this many in flight before `fair` may set it back."""

# Topics
PARTITIONS_COUNT = 256
SOURCES_COUNT = 256
SEQUENCE_MAX = 2**62 - 1
LANES_COUNT = 64
RETENTION_MAX_SECONDS = 3660 * 24 * 3600
RETENTION_DEFAULT_SECONDS = 7 * 24 * 3600
DEDUPLICATION_DEFAULT_SECONDS = 300
DEDUPLICATION_MAX_SECONDS = 3600
DEDUPLICATION_BUCKET_SECONDS = 300
REDRIVE_RATE_MAX_PER_SECOND = 100_000

# The cycle
CYCLE_BYTES = 4 * 1024 * 1024
CYCLE_MESSAGES = 10_000
CYCLE_WORKS = 128
"""So that of many callers some make their next request while the others' is being committed."""
CYCLE_CLOCK_MS = 50
CYCLE_DEADLINE_SECONDS = 30.0
"""No answer to a COMMIT for this long: the socket is dropped and the outcome looked up."""
LOCK_HOLD_SECONDS = 5
"""A stalled broker may hold its locks no longer than this; the servers end its session."""
RETRY_COUNT = 20
"""How often a transaction is tried again on a lost lock race before its callers are told."""
PATIENCE_MAX_SECONDS = 24 * 3600
PATIENCE_SECONDS = 60.0
"""How long callers wait for a database that went away before they get an error."""

# Ledgers
PAGE_MESSAGES = 128
ERA_CHANGES = 64
"""A page row moves to a new key after so many changes, so that an old snapshot piles up no more versions of one row."""
WRITER_TURNS = 128
"""A writer row is replaced after so many cycles, for the same reason."""

# Caches, each for one process
LOG_CACHE_BYTES = 64 * 1024 * 1024
LEDGER_CACHE_BYTES = 256 * 1024 * 1024
CATALOG_CACHE_ENTRIES = 20_000
READ_AHEAD_MESSAGES = 1_000
READ_AHEAD_BYTES = 1024 * 1024

# Background work, per step
DELETE_STEP_MESSAGES = 1_000
MOVE_STEP_MESSAGES = 500
EXPIRE_STEP_MESSAGES = 50_000
SWEEP_STEP_CURSORS = 1_000
DEDUPLICATION_STEP_ROWS = 1_000

# The server
HEALTH_SECONDS = 5
HTTP_DRAIN_SECONDS = 10
"""How long requests under way may take once the server was told to end."""
HTTP_BACKLOG_CONNECTIONS = 2048
METRICS_SUBSCRIPTIONS_COUNT = 100
"""Each costs a few statements at every scrape."""
