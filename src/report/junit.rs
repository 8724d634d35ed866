//! Checks as `JUnit` XML: one testsuite per project, one testcase per check.

use std::fmt::Write as _;

use super::check::{Check, Status, Suite, total};
use super::xml::escape;

/// The whole file of `kernels ci`.
pub fn render(suites: &[Suite]) -> String {
    render_as("kernels ci", suites)
}

/// The whole file, of a command of this name.
pub(crate) fn render_as(command: &str, suites: &[Suite]) -> String {
    let all = total(suites);
    // `sum` of nothing is -0.
    let seconds = suites.iter().fold(0.0, |sum, suite| sum + suite.seconds);
    let mut xml = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"{command}\" tests=\"{}\" failures=\"{}\" \
         errors=\"0\" skipped=\"{}\" time=\"{seconds:.3}\">\n",
        all.passed + all.failed + all.skipped,
        all.failed,
        all.skipped,
    );
    for suite in suites {
        let counts = suite.counts();
        let _ = writeln!(
            xml,
            "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"0\" skipped=\"{}\" time=\"{:.3}\" file=\"{}\">",
            escape(&suite.name),
            suite.checks.len(),
            counts.failed,
            counts.skipped,
            suite.seconds,
            escape(&suite.dir),
        );
        for check in &suite.checks {
            case(&mut xml, suite, check);
        }
        xml.push_str("  </testsuite>\n");
    }
    xml + "</testsuites>\n"
}

fn case(xml: &mut String, suite: &Suite, check: &Check) {
    let _ = write!(
        xml,
        "    <testcase classname=\"{}.{}\" name=\"{}\" time=\"{:.3}\"",
        escape(&suite.name),
        escape(&check.group),
        escape(&check.name),
        check.seconds,
    );
    let inside = match &check.status {
        Status::Passed => String::new(),
        Status::Failed { message, text } => format!(
            "      <failure message=\"{}\" type=\"{}\">{}</failure>\n",
            escape(message),
            escape(&check.group),
            escape(text)
        ),
        Status::Skipped { reason } => {
            format!("      <skipped message=\"{}\"/>\n", escape(reason))
        }
    };
    let detail = if check.detail.is_empty() {
        String::new()
    } else {
        format!("      <system-out>{}</system-out>\n", escape(&check.detail))
    };
    if inside.is_empty() && detail.is_empty() {
        xml.push_str("/>\n");
    } else {
        let _ = write!(xml, ">\n{inside}{detail}    </testcase>\n");
    }
}
