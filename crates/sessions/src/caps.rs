//! How much of everything there may be, and how long it may take.

use std::time::Duration;

/// Bytes of a request that wakes.
pub const WAKE_BODY_BYTES_MAX: usize = wake::caps::NOTICE_BYTES_MAX;
/// How long such a request may take to arrive.
pub const WAKE_BODY_PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of requests that are read and verified at a time, in units of [`WAKE_ROOM_UNIT`]. Those
/// that are worked on do not count here.
pub const WAKE_ROOM_UNITS: usize = 64 * 1024;
/// Bytes that a request takes at least.
pub const WAKE_ROOM_UNIT: usize = 1024;

const _: () = assert!(WAKE_BODY_BYTES_MAX <= WAKE_ROOM_UNITS * WAKE_ROOM_UNIT);
/// Seconds after which whoever was refused may come back.
pub const RETRY_AFTER_SECONDS: u32 = 1;
/// Seconds after which those come back whom a full disk has refused, as the server itself says.
pub const DISK_FULL_RETRY_SECONDS: u32 = 10;

/// Bytes of the name of a session.
pub const SESSION_ID_BYTES_MAX: usize = 64;
/// Bytes of an id that a client gives to what it says.
pub const ACTION_ID_BYTES_MAX: usize = 64;
/// Bytes of the name of an agent, of an actor, and of anything else that is named.
pub const NAME_BYTES_MAX: usize = 128;
/// Bytes of one message of a person.
pub const TEXT_BYTES_MAX: usize = 256 * 1024;
/// Bytes of why somebody says stop.
pub const REASON_BYTES_MAX: usize = 1024;
/// Bytes of the answer that a person gives for a call.
pub const RESULT_BYTES_MAX: usize = 256 * 1024;
/// Bytes of the request of an action: a text, written with every character escaped.
pub const ACTION_BODY_BYTES_MAX: usize = 6 * TEXT_BYTES_MAX + 64 * 1024;
/// Actions of one process under way at a time; the next is told to come back.
pub const ACTIONS_UNDER_WAY_MAX: usize = 256;
/// How long a token of a page is good.
pub const TOKEN_LIFE: Duration = Duration::from_hours(12);

const _: () = assert!(TEXT_BYTES_MAX < ACTION_BODY_BYTES_MAX);
const _: () = assert!(RESULT_BYTES_MAX < ACTION_BODY_BYTES_MAX);

/// Agents of one process that run at a time, if nobody says; sessions beyond that wait their turn.
pub const AGENTS_RUNNING_DEFAULT: usize = 256;
/// Agents of one process that wait for somebody else, such as a person who decides or an executor
/// elsewhere, if nobody says. They have no turn. If there are more, the one that has waited for
/// longest is ended, and started again when its session moves.
pub const AGENTS_WAITING_DEFAULT: usize = 4_096;
/// Agents of one process that have nothing to do and are kept for the next message, if nobody says.
/// They have no turn. If there are more, the one that has idled for longest is ended.
pub const AGENTS_WARM_DEFAULT: usize = 256;
/// How long an agent that was ended with its work undone is left alone if its session does not
/// move; each time after that twice as long.
pub const SHELF_PAUSE_FIRST: Duration = Duration::from_mins(10);
/// And it grows no further than this.
pub const SHELF_PAUSE_MAX: Duration = Duration::from_hours(24);
/// Sessions with work that are known to be left alone for now; of those beyond, the ones that are
/// left alone for longest are forgotten, and found again when all sessions are gone through, which
/// happens when the time of one of them is over.
pub const SESSIONS_KNOWN_MAX: usize = 100_000;
/// Sessions of which it is remembered where they were seen at rest; those beyond are looked at
/// again when all sessions are gone through.
pub const RESTED_MAX: usize = 100_000;
/// How much longer a session waits for its turn for each agent that works here, so that another
/// supervisor with less work claims it first.
pub const LOAD_PAUSE: Duration = Duration::from_micros(250);
/// And it grows no further than this.
pub const LOAD_PAUSE_MAX: Duration = Duration::from_millis(50);
/// Milliseconds beside that by which supervisors with as much work differ, from session to session.
pub const LOAD_SPREAD_MS: u64 = 4;
/// Sessions that a supervisor looks at at a time.
pub const LOOKS_MAX: usize = 64;
/// How soon a session is looked at again whose runner holds a lease, and writes.
pub const LEASED_LOOK_PAUSE: Duration = Duration::from_millis(500);
/// The longest lease of a runner that is respected.
pub const LEASE_MAX: Duration = Duration::from_mins(5);
/// How often the wall clock is looked at, while something waits for a time that it shows.
pub const WALL_CLOCK_PAUSE: Duration = Duration::from_mins(1);
/// Deaths of the process under a session, without progress, after which it is a suspect.
pub const DEATHS_BEFORE_QUARANTINE: u32 = 3;
/// Suspects that run together in quarantine; a quarter of it after each further death.
pub const QUARANTINE_GROUP_MAX: usize = 64;
/// How long suspects wait for more of them, so that they run together.
pub const QUARANTINE_GATHERING: Duration = Duration::from_secs(1);
/// How long suspects wait for others to come to their end, while others are started.
pub const QUARANTINE_PATIENCE: Duration = Duration::from_secs(10);
/// And how much longer while none is started; then those that still work are ended in peace.
pub const QUARANTINE_DRAIN: Duration = Duration::from_secs(30);
/// How long a suspect may be alone without progress; each further death doubles it.
pub const PROBATION_FIRST: Duration = Duration::from_secs(30);
/// And it grows no further than this.
pub const PROBATION_MAX: Duration = Duration::from_mins(10);
/// What jobs tell their owner that it has not heard yet.
pub const JOB_NEWS_WAITING_MAX: usize = 64;
/// Sessions of which it is remembered since when their calls are open, while no agent runs in them;
/// calls of those beyond are given more time.
pub const AGES_KEPT_MAX: usize = 10_000;
/// Sessions that may wait for a turn; if there are more, all sessions are looked at again later.
pub const SESSIONS_WAITING_MAX: usize = 10_000;
/// How long an agent may have nothing to do before it is ended, if nobody says.
pub const AGENT_IDLE_DEFAULT: Duration = Duration::from_secs(30);
/// The wait before an agent that failed is started again; each further failure doubles it.
pub const FAILURE_PAUSE_FIRST: Duration = Duration::from_secs(1);
/// And it grows no further than this.
pub const FAILURE_PAUSE_MAX: Duration = Duration::from_mins(1);
/// Sessions at rest that are kept small, or wait for that; those beyond are found again later.
pub const RESTS_WAITING_MAX: usize = 1_024;
/// Bytes of the ledger of sessions with an index that are gone through at a time.
pub const LEDGER_PAGE_BYTES: usize = 64 * 1024;
/// And the pause after each of these.
pub const LEDGER_PAUSE: Duration = Duration::from_secs(1);
/// Lines of the ledger that are left alone, however few of them count.
pub const LEDGER_LINES_MIN: usize = 1_000;
/// Sessions of which a supervisor remembers that the ledger names them; others it names again.
pub const NAMED_MAX: usize = 100_000;
/// Sessions of one process that are compacted at a time.
pub const COMPACTIONS_MAX: usize = 1;
