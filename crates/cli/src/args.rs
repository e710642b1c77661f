//! The command line: what can be asked of the program.

use clap::{Parser, Subcommand};

use crate::{
    ask::AskArgs,
    backup::BackupArgs,
    chat::ChatArgs,
    config::{DevFlags, Flags},
    doctor::DoctorArgs,
    inspect::InspectArgs,
    keys::KeysArgs,
    stream::StreamArgs,
};

const ABOUT: &str = "\
Durable streams for AI agents.

A stream is an append-only list of messages. It survives crashes, can be read again from any point,
and can be followed live over HTTP.";

const FIRST_STEPS: &str = "\
First steps:
  headwater dev                                  start a server, and open the page it tells of

In another terminal:
  export HEADWATER_URL=http://127.0.0.1:4437
  headwater stream create hello --content-type application/json
  echo '{\"text\":\"hi\"}' | headwater stream append hello
  headwater stream tail hello

`headwater help COMMAND` tells more about each command.";

const DEV_NOTES: &str = "\
Every option of `headwater serve` works here, too, and so do its signals. Without --listen, the next
free port is taken if 4437 is in use.";

const ASK_NOTES: &str = "\
Try it without a key:
  headwater ask \"What is the weather in Paris and Oslo?\"

Only the scripted model is given a weather tool: it makes the weather up.

The answer goes to the standard output; thoughts and tool calls go beside it, to the standard error.
Keys are read from OPENAI_API_KEY, ANTHROPIC_API_KEY and GEMINI_API_KEY, other places of the APIs
from OPENAI_BASE_URL, ANTHROPIC_BASE_URL, GEMINI_BASE_URL and OLLAMA_HOST.";

const CHAT_NOTES: &str = "\
Without SESSION a new one is made. Without --url, the data directory is used directly and the agent
runs here; with --url, the agent of that server answers.

Ctrl-C stops the answer, twice it leaves. Of a pipe, each line is one message:
  echo 'What is the weather in Oslo?' | headwater chat demo --model scripted";

const SERVE_NOTES: &str = "\
Each option can also be given in the environment, as HEADWATER_ and its name in capitals
(HEADWATER_DATA_DIR), or in the file named by --config, by its name (data-dir = \"streams\"). The
command line wins over the environment, and the environment over the file.

With --auth keys, the file named by --keys-file says who may do what (docs/auth.md tells more):

  [[key]]
  name = \"worker\"
  token_sha256 = \"…\"   # 64 hex digits; or the token itself: token = \"…\"
  scopes = [{ glob = \"chats/**\", allow = [\"read\", \"write\"] }]   # or \"admin\"

SIGTERM or Ctrl-C lets answers under way finish and ends the server; a second ends it now. SIGHUP
takes the keys that `headwater keys rotate` made.";

const BACKUP_NOTES: &str = "\
The copy holds everything that was acknowledged before it was begun, and is a data directory like
any other: start a server with it to restore. It holds the keys of webhooks, which are secret.

A copy by cp -r of a directory that is in use may be torn, and is then refused.";

#[derive(Debug, Parser)]
#[command(name = "headwater", version, about = ABOUT, after_help = FIRST_STEPS)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start a server and a session to talk in: no settings needed, data in ./.headwater
    #[command(after_help = DEV_NOTES)]
    Dev(DevFlags),

    /// Serve streams over HTTP
    #[command(after_help = SERVE_NOTES)]
    Serve(Flags),

    /// Ask a model something; the scripted one answers, unless --model names another
    #[command(after_help = ASK_NOTES)]
    Ask(AskArgs),

    /// Talk in a session: what is said lasts, and goes on after a crash
    #[command(after_help = CHAT_NOTES)]
    Chat(ChatArgs),

    /// Tell what happened in a session: generations, steps, tool calls, takeovers
    Inspect(InspectArgs),

    /// Work with streams, in a data directory or on a server
    Stream(StreamArgs),

    /// Tell what webhooks are signed with, and replace it
    Keys(KeysArgs),

    /// Copy a data directory, also while a server has it open
    #[command(after_help = BACKUP_NOTES)]
    Backup(BackupArgs),

    /// Examine a data directory that no server has open, and mend it with --repair
    Doctor(DoctorArgs),
}
