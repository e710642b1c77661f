//! How much of everything there may be, and how long it may take.

use std::time::Duration;

/// A heartbeat is sent when this part of the lease is over: two may be lost before it is.
pub const HEARTBEATS_PER_LEASE: u32 = 3;
/// A report that was not taken is sent again after this part of the lease, more or less.
pub const RETRIES_PER_LEASE: u32 = 20;
/// Reports of one session that may wait for the one under way.
pub const REPORTS_WAITING_MAX: usize = 64;
/// Streams that one checkpoint may name.
pub const CHECKPOINT_STREAMS_MAX: usize = wake::caps::STREAMS_PER_REQUEST_MAX;
/// The wait before work that failed twice is given back; each further failure doubles it, up to
/// the time between two heartbeats.
pub const SETBACK_FIRST: Duration = Duration::from_secs(1);
/// Pieces of work whose failures are counted.
pub const SETBACKS_MAX: usize = 10_000;
/// Wakes that a desk works on at a time, if nobody says.
pub const WAKES_UNDER_WAY_DEFAULT: usize = 256;
/// How long a request-bound webhook is kept open, if nobody says and the lease is not shorter.
/// Servers of ours hang up after thirty seconds.
pub const REQUEST_PATIENCE_DEFAULT: Duration = Duration::from_secs(25);
/// Cycles of one drain, if nobody says.
pub const DRAIN_ITERATIONS_DEFAULT: u32 = 50;
/// Time after which a drain begins no further cycle, if nobody says.
pub const DRAIN_DURATION_DEFAULT: Duration = Duration::from_secs(20);
/// How long published keys are believed to be the published ones.
pub const KEYS_LIFE: Duration = Duration::from_mins(5);
/// The least time between two looks at the published keys, whatever requests come in.
pub const KEYS_PAUSE: Duration = Duration::from_secs(10);
/// How long one look may take.
pub const KEYS_PATIENCE: Duration = Duration::from_secs(10);
/// The wait before a worker tries again to reach its server, more or less.
pub const FOLLOW_PAUSE: Duration = Duration::from_secs(1);
/// How long a worker waits for an announcement before it claims without one, more or less: nothing
/// is announced by a subscription that is gone.
pub const FOLLOW_LOOK: Duration = Duration::from_secs(30);
/// How long whoever stops waits until the wakes it has are given back; after that they lapse.
pub const RELEASE_PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of a wake stream that are read at once.
pub const FEED_BYTES: usize = 64 * 1024;
/// Bytes of one chunk of a growing text.
pub const CHUNK_BYTES_MAX: usize = 4 * 1024;
/// Texts, thoughts and calls whose message is remembered while they grow.
pub const CHUNKER_BLOCKS_MAX: usize = 1_000;
/// How long a durable tool waits for its result, if nobody says.
pub const DURABLE_PATIENCE_DEFAULT: Duration = Duration::from_mins(5);
/// How much longer the call itself may take: its row is written before and after the wait.
pub const DURABLE_PATIENCE_SLACK: Duration = Duration::from_secs(30);
/// How much longer than it says a claim is respected: clocks of different machines differ.
pub const CLAIM_SLACK: Duration = Duration::from_secs(2);
/// How much longer a claim holds than the work may take, if nobody says.
pub const LEASE_MARGIN_DEFAULT: Duration = Duration::from_secs(10);
/// Calls that an executor runs at the same time, if nobody says.
pub const EXECUTOR_CONCURRENCY_DEFAULT: usize = 8;
/// The wait before work that could not be given out or written down is looked at again.
pub const FOREMAN_PAUSE: Duration = Duration::from_secs(5);
/// How often the end of a piece of work is written before it is left to whoever finds it.
pub const END_WRITES_MAX: u32 = 5;
/// The wait between two of these.
pub const END_WRITE_PAUSE: Duration = Duration::from_millis(500);
/// Attempts that are remembered where rows come back late.
pub const ATTEMPTS_REMEMBERED_MAX: usize = 10_000;
/// How long a generation may take, if nobody says.
pub const GENERATION_TIME_DEFAULT: Duration = Duration::from_mins(15);
/// How long a generation that was cancelled may take to come to its end.
pub const GENERATION_GRACE: Duration = Duration::from_secs(10);
/// Generations that a generator runs at the same time, if nobody says.
pub const GENERATOR_CONCURRENCY_DEFAULT: usize = 8;
/// Writes of chunks that may be on their way at a time.
pub const CHUNK_WRITES_MAX: usize = 8;
/// Chunks that may wait for their turn; the run waits then.
pub const CHUNKS_WAITING_MAX: usize = 256;

/// Chunks of one generation, as long as 4 KB each can hold what it says: chunks grow as they become
/// many.
pub const CHUNKS_PER_GENERATION_MAX: u64 = 10_000;
/// So many chunks of a generation are written as soon as they can be, however small.
pub const CHUNKS_SMALL_MAX: u64 = 4_000;
/// Those up to this one have [`CHUNK_BYTES_MIDDLE`] on average, those beyond it
/// [`CHUNK_BYTES_LARGE`].
pub const CHUNKS_MIDDLE_MAX: u64 = 6_500;
/// Bytes that a chunk waits for once its generation has [`CHUNKS_SMALL_MAX`].
pub const CHUNK_BYTES_MIDDLE: usize = 128;
/// Bytes that a chunk waits for once its generation has [`CHUNKS_MIDDLE_MAX`].
pub const CHUNK_BYTES_LARGE: usize = 2 * 1024;
/// Bytes that wait for no more, however many chunks they are of.
pub const CHUNKS_WAITING_BYTES_MAX: usize = 64 * 1024;
/// Rows that are deleted by one append.
pub const DELETES_PER_APPEND_MAX: usize = 10_000;
/// Chunks that are written by one append.
pub const CHUNKS_PER_APPEND_MAX: usize = 1_000;

// One turn, however long and of however many blocks, fits into what is left for large chunks.
const _: () = assert!(
    CHUNKS_MIDDLE_MAX
        + (AGENT_TURN_BYTES_MAX / CHUNK_BYTES_LARGE) as u64
        + (chat::caps::BLOCKS_PER_TURN_MAX + 2 * chat::caps::CALLS_PER_TURN_MAX) as u64
        <= CHUNKS_PER_GENERATION_MAX
);
const _: () = assert!(CHUNKS_SMALL_MAX < CHUNKS_MIDDLE_MAX);
// A chunk that is full and one that has just begun are large on average.
const _: () = assert!(2 * CHUNK_BYTES_LARGE <= CHUNK_BYTES_MAX);
const _: () = assert!(CHUNKS_WAITING_BYTES_MAX < TEXT_WAITING_BYTES_MAX);
const _: () = assert!(DELETES_PER_APPEND_MAX < wire::caps::APPEND_MESSAGES_MAX);
// Ids, written twice, are a kilobyte at most; a character is six bytes of JSON at most.
const _: () = assert!(DELETES_PER_APPEND_MAX * 1024 < wire::caps::APPEND_BYTES_MAX);
const _: () =
    assert!(CHUNKS_PER_APPEND_MAX * (6 * CHUNK_BYTES_MAX + 2048) < wire::caps::APPEND_BYTES_MAX);
const _: () = assert!(HEARTBEATS_PER_LEASE >= 2 && RETRIES_PER_LEASE > HEARTBEATS_PER_LEASE);
// An agent that is to stop waits for its tools, and writes nothing meanwhile.
const _: () = assert!(
    LEASE_DEFAULT.as_secs() / HEARTBEATS_PER_LEASE as u64 + TOOLS_PATIENCE.as_secs()
        < LEASE_DEFAULT.as_secs()
);
const _: () = assert!(DRAIN_DURATION_DEFAULT.as_secs() < REQUEST_PATIENCE_DEFAULT.as_secs());
const _: () = assert!(KEYS_PAUSE.as_secs() < KEYS_LIFE.as_secs());
/// Appends of one agent that may be under way at a time.
pub const FLIGHTS_MAX: usize = 4;
/// How long a piece of text waits for the append before it, at most.
pub const FLUSH_PATIENCE: Duration = Duration::from_millis(10);
/// The same where fewer, larger appends are wanted.
pub const FLUSH_PATIENCE_ECONOMY: Duration = Duration::from_millis(250);
/// Bytes of text that wait for their append; beyond them the model is not listened to.
pub const TEXT_WAITING_BYTES_MAX: usize = 256 * 1024;
/// Bytes that a model may say in one turn of an agent: so much always fits one row.
pub const AGENT_TURN_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Model turns of one generation, unless the agent says otherwise.
pub const AGENT_TURNS_DEFAULT: u32 = 25;
/// How long a model may say nothing at all, unless the agent says otherwise.
pub const MODEL_SILENCE_DEFAULT: Duration = Duration::from_mins(5);
/// How often one step is begun without getting anywhere before its generation fails.
pub const FAILURES_PER_STEP_MAX: u32 = 5;
/// How long a runner may write nothing before others take it over, if nobody says.
pub const LEASE_DEFAULT: Duration = Duration::from_secs(20);
/// The wait before a model is asked again after it has failed; each further failure doubles it.
pub const MODEL_PAUSE_FIRST: Duration = Duration::from_millis(500);
/// The longest such wait.
pub const MODEL_PAUSE_MAX: Duration = Duration::from_secs(30);
/// How long an agent that is to stop waits for tools that are under way.
pub const TOOLS_PATIENCE: Duration = Duration::from_secs(10);
/// How long a tool that was cancelled may go on, to clear away what it has begun.
pub const TOOL_GRACE: Duration = Duration::from_secs(2);
/// How much longer than the lease of a dead executor an agent waits until another one has begun.
pub const RELIEF_PATIENCE: Duration = Duration::from_secs(10);
/// Attempts at a call elsewhere that an agent waits for; the last one has its own time alone.
pub const ELSEWHERE_ATTEMPTS_MAX: u32 = 5;
/// The longest lease of an executor that an agent waits for.
pub const LEASE_BELIEVED_MAX: Duration = Duration::from_hours(1);
/// Bytes of the name of an agent.
pub const AGENT_NAME_BYTES_MAX: usize = 64;
/// Messages that one generation answers; those beyond wait for the next.
pub const INBOX_BATCH_MAX: usize = 1_000;
/// Messages of the conversation that a model is told, unless the agent says otherwise.
pub const HISTORY_MESSAGES_DEFAULT: usize = 200;
/// Bytes of them, unless the agent says otherwise.
pub const HISTORY_BYTES_DEFAULT: usize = 512 * 1024;
/// Sessions that are kept in memory as they are; others are read again from their snapshots.
pub const SESSIONS_OPEN_MAX: usize = 1_024;
/// Bytes of a session that are read at a time.
pub const SESSION_READ_BYTES: usize = 1024 * 1024;
/// Agents of one session whose work is known by their names.
pub const SESSION_AGENTS_MAX: usize = 1_024;
/// Messages for one agent that it has not read and that are known one by one.
pub const SESSION_UNREAD_MAX: usize = 1_024;
/// Generations of one agent that have not ended and are known. There is one at most, unless others
/// write what only the agent should.
pub const SESSION_GENERATIONS_OPEN_MAX: usize = 256;
/// Calls of one session that have not ended and are known.
pub const SESSION_CALLS_MAX: usize = 10_000;
/// Calls of one session that have ended and are still known, so that it can be told how.
pub const SESSION_CALLS_ENDED_MAX: usize = 32;
/// Bytes of a session that are read again rather than kept as a snapshot.
pub const SNAPSHOT_TAIL_BYTES: u64 = 64 * 1024;
/// Bytes of a session that is never idle between two snapshots of it.
pub const SNAPSHOT_EVERY_BYTES: u64 = 4 * 1024 * 1024;
/// Ids of people's writes that are held in memory before a snapshot takes them.
pub const SNAPSHOT_IDS_MAX: usize = 16_384;
/// Bytes of a snapshot; a session whose open work takes more gets none.
pub const SNAPSHOT_BYTES_MAX: usize = 4 * 1024 * 1024;
/// How often the index of a session may be lost under one question before that is refused.
pub const INDEX_LOSSES_MAX: u32 = 4;
/// Bytes that a compaction must give back at least.
pub const COMPACTION_GAIN_BYTES_MIN: u64 = 4 * 1024;
/// And this part of the session: one in so many.
pub const COMPACTION_GAIN_SHARE: u64 = 3;
/// Ids on one page of the index of a session.
pub const IDS_PER_PAGE: usize = 102;
/// A run of ids is taken into the next one unless it is this many times larger.
pub const IDS_RUN_RATIO: u64 = 4;
/// Bytes of a session that are read at a time, backwards, to find where a window begins.
pub const WINDOW_READ_BYTES: usize = 256 * 1024;
/// Bytes of a session that an agent reads when it starts, for each byte of its conversation that
/// its model may be told: what lies between may be chunks, and what other agents say. Beyond them
/// its conversation begins later.
pub const WINDOW_BYTES_PER_HISTORY_BYTE: u64 = 16;
/// The same for agents whose models are told little.
pub const WINDOW_BYTES_MIN: u64 = 1024 * 1024;
/// How long an agent waits until it has read its own takeover.
pub const TAKEOVER_PATIENCE: Duration = Duration::from_secs(30);
/// Bytes of a stream that are read at once when a dead attempt is cleared away.
pub const SCAN_BYTES: usize = 1024 * 1024;
/// Bytes of the answer of one call: so much always fits one row.
pub const ANSWER_BYTES_MAX: usize = 4 * 1024 * 1024;
/// The longest that a provider may ask to be left alone; whoever asks for more is asked again.
pub const RETRY_AFTER_MAX: Duration = Duration::from_mins(10);
