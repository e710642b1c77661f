//! `headwater chat`.

use crate::world::{Dev, run};

const LOCAL: [&str; 6] = ["chat", "demo", "--data-dir", "data", "--model", "scripted"];

#[test]
fn each_line_of_a_pipe_is_answered_and_the_next_run_remembers() {
    let dir = tempfile::tempdir().unwrap();
    let first = run(dir.path(), &LOCAL, "What is the weather in Oslo?\n\nhello\n").ok();
    let (asked, greeted) = first.stdout.split_once("> hello\n").unwrap();
    assert!(asked.starts_with("> What is the weather in Oslo?\n"), "{asked}");
    assert!(asked.contains("Oslo: "), "{asked}");
    assert!(greeted.starts_with("Hello!"), "{greeted}");
    assert!(first.stderr.contains("→ weather {\"city\":\"Oslo\"}"), "{}", first.stderr);
    assert!(first.stderr.contains("← weather"), "{}", first.stderr);

    let second = run(dir.path(), &LOCAL, "").ok();
    assert_eq!(second.stdout, first.stdout);

    let told = run(dir.path(), &["inspect", "demo", "--data-dir", "data"], "").ok().stdout;
    assert!(told.contains("2 messages of people, 2 generations"), "{told}");
}

#[test]
fn a_server_is_reached_by_its_url() {
    let dir = tempfile::tempdir().unwrap();
    let dev = Dev::start(dir.path());
    let url = dev.url();
    let args = ["chat", &dev.session, "--url", &url];
    let said = run(dir.path(), &args, "hello\n").ok();
    assert!(said.stdout.starts_with("> hello\nHello!"), "{said:?}");
    let again = run(dir.path(), &args, "").ok();
    assert_eq!(again.stdout, said.stdout);
    // The directory is the server's.
    let refused = run(dir.path(), &LOCAL, "hello\n");
    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains("--url"), "{refused:?}");
    dev.stop();
}

#[test]
fn what_cannot_be_a_session_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let output = run(dir.path(), &["chat", "a/b", "--model", "scripted"], "");
    assert_eq!(output.code, 2, "{output:?}");
    assert!(output.stderr.contains("a session is named by"), "{output:?}");
}
