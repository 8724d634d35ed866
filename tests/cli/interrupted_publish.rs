//! `kernels publish`, killed, cut off and refused at every request: a reader never sees a part of a version, and publishing
//! again ends in the same state.

use std::fs;
use std::io::Write as _;
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use serde_json::{Value, json};

use crate::support::hub::{Demo, Server, VARIANTS};
use crate::support::{Ran, executable};

const TYPED: &str = "publish --unproved --tag v1.0";

/// What happens at a request, before what it asks for is done, or after.
#[derive(Clone, Copy, Debug)]
enum Fault {
    Kill,
    Cut,
    Status(u16),
}

/// Those that end a publish, before what is asked for is done and after. Those that pass come at each request of another test.
const FAULTS: [(Fault, bool); 12] = [
    (Fault::Kill, false),
    (Fault::Status(401), true),
    (Fault::Status(403), false),
    (Fault::Status(404), true),
    (Fault::Kill, true),
    (Fault::Status(403), true),
    (Fault::Status(401), false),
    (Fault::Status(404), false),
    (Fault::Status(409), true),
    (Fault::Status(412), false),
    (Fault::Status(400), false),
    (Fault::Status(422), false),
];

/// Runs it with a program before curl that kills `kernels` at its N-th request. Whether it did.
fn killed(demo: &Demo, server: &Server, at: usize, after: bool) -> bool {
    let folder = demo.test.outside().join(format!("deadly-{}", server.port));
    let script = format!(
        "#!/bin/sh\necho >> {0}/count\n[ $(wc -l < {0}/count) = {at} ] || exec /usr/bin/curl \"$@\"\n{1}\nkill -9 $PPID\n",
        folder.display(),
        if after { "/usr/bin/curl \"$@\"" } else { "" },
    );
    executable(&folder.join("curl"), script);
    let path = format!("{}:/usr/bin:/bin", folder.display());
    let ran = Ran::of_redirected(demo.command(server, TYPED).env("PATH", path), Stdio::piped());
    assert!(ran.code == -1 || ran.code == 0, "{ran:#?}");
    fs::remove_dir_all(folder).unwrap();
    ran.code == -1
}

/// Runs it with a fault at its N-th request, if it comes so far. Whether it did.
fn disturbed(demo: &Demo, server: &Server, fault: Fault, at: usize, after: bool) -> bool {
    let made = || server.state()["made"].as_array().unwrap().len();
    let before = made();
    // One that a shorter run did not come to is not for this one.
    server.fault(&json!({}));
    match fault {
        Fault::Kill => return killed(demo, server, at, after),
        Fault::Cut => server.fault(&json!({"at": at, "after": after})),
        Fault::Status(status) => server.fault(&json!({"at": at, "after": after, "status": status})),
    }
    let ran = demo.run(server, TYPED);
    assert!(ran.code == 0 || ran.code == 1, "{ran:#?}");
    made() > before
}

/// Publishes until it is done, and compares what is there.
fn settled(demo: &Demo, server: &Server, wanted: &Value, what: &str) {
    server.fault(&json!({}));
    demo.run(server, TYPED).expect(0, &["v1"]);
    assert_eq!(server.content(), *wanted, "{what}");
    assert_eq!(server.state()["half"], json!([]), "{what}");
}

fn requests(server: &Server) -> usize {
    server.state()["log"].as_array().unwrap().len()
}

/// Does the work of each number on some threads, which wait for the server most of the time.
fn each(numbers: std::ops::Range<usize>, work: impl Fn(usize) + Sync) {
    let next = AtomicUsize::new(numbers.start);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while let Some(number) = Some(next.fetch_add(1, Relaxed)).filter(|number| *number < numbers.end) {
                    work(number);
                }
            });
        }
    });
}

fn count(made: &AtomicUsize, least: usize, what: &str) {
    let made = made.load(Relaxed);
    let _ = writeln!(std::io::stderr(), "\n{made} faults injected into {what}");
    assert!(made >= least, "{made} faults");
}

#[test]
fn a_first_version_is_whole_or_absent_whatever_happens_at_any_request() {
    let demo = Demo::of(&VARIANTS[..1]);
    let calm = Server::new();
    demo.run(&calm, TYPED).expect(0, &["published"]);
    let (wanted, requests) = (calm.content(), requests(&calm));
    assert!(requests > 20, "{requests}");
    let made = AtomicUsize::new(0);
    each(1..requests + 1, |at| {
        let server = Server::new();
        // Six of the twelve, from another one on at each request: what comes later finds more done, until nothing is left to do
        // at this request.
        for (fault, after) in (0..FAULTS.len() / 2).map(|turn| FAULTS[(at + turn) % FAULTS.len()]) {
            if !disturbed(&demo, &server, fault, at, after) {
                break;
            }
            made.fetch_add(1, Relaxed);
        }
        settled(&demo, &server, &wanted, &format!("request {at}"));
    });
    count(&made, 60, "the first publish of a version, one a run");
}

#[test]
fn a_change_of_a_version_is_made_in_one_step_whatever_happens_at_any_request() {
    let (demo, changed) = (Demo::of(&VARIANTS[..1]), Demo::of(&VARIANTS[..1]));
    changed.variant(VARIANTS[0], "\"scale\", \"more\"");
    let publish = |demo: &Demo, server: &Server| demo.run(server, "publish --unproved").expect(0, &["published"]).code;
    let calm = Server::new();
    publish(&demo, &calm);
    let first = requests(&calm);
    changed.run(&calm, TYPED).expect(0, &["published"]);
    let (wanted, requests) = (calm.content(), requests(&calm) - first);
    assert!(requests > 10, "{requests}");
    let made = AtomicUsize::new(0);
    each(1..requests + 1, |at| {
        let server = Server::new();
        publish(&demo, &server);
        for (turn, fault) in [Fault::Kill, Fault::Status(412), Fault::Cut, Fault::Status(500)].into_iter().enumerate() {
            made.fetch_add(disturbed(&changed, &server, fault, at, (at + turn) % 2 == 0).into(), Relaxed);
        }
        settled(&changed, &server, &wanted, &format!("request {at}"));
    });
    count(&made, 30, "a change of a version, one a run");
}

#[test]
fn a_hub_on_which_every_other_request_fails_is_published_to() {
    let demo = Demo::of(&VARIANTS[..1]);
    let calm = Server::new();
    demo.run(&calm, TYPED).expect(0, &["published"]);
    let wanted = calm.content();
    let made = AtomicUsize::new(0);
    each(0..12, |number| {
        let (server, after) = (Server::new(), number % 2 == 0);
        let mut fault = json!({"at": 1, "every": 2, "after": after});
        if let Some(status) = [429, 500, 502, 503, 504].get(number / 2) {
            fault["status"] = (*status).into();
        }
        server.fault(&fault);
        let ran = demo.run(&server, TYPED);
        assert!(ran.code == 0 || ran.code == 1, "{ran:#?}");
        made.fetch_add(server.state()["made"].as_array().unwrap().len(), Relaxed);
        settled(&demo, &server, &wanted, &fault.to_string());
    });
    count(&made, 200, "a publish, at every other request");
}
