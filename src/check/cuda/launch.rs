//! Rules for launches: stream, device, and error checks.

use std::collections::BTreeMap;
use std::ops::Range;

use super::super::code::{Code, Function, Launch};
use super::super::findings::Findings;
use super::super::load::Sources;

pub(super) fn check(project: &Sources, findings: &mut Findings) {
    for unit in project.compiled() {
        let code = &unit.code;
        let launches = code.launches();
        let mut last = BTreeMap::new();
        for launch in &launches {
            let function = code.function_at(launch.at);
            // Launches from device code are not checked.
            if function.is_some_and(|function| function.global) {
                continue;
            }
            stream(code, launch, findings);
            let Some(function) = function else {
                continue;
            };
            // A device guard precedes a function's first launch, and one check after the last suffices.
            if last.insert(function.body.start, (launch.at, launch.end)).is_none() {
                guard(code, launch, function, findings);
            }
        }
        for at in 0..code.len() {
            if code.word(at) == "cudaLaunchKernel" && code.word(at + 1) == "(" {
                call(code, at, &mut last, findings);
            }
        }
        for (at, end) in last.into_values() {
            unchecked(code, at, end, findings);
        }
    }
}

/// Arguments that mean the default stream.
const DEFAULT: [&str; 6] = ["0", "nullptr", "NULL", "cudaStreamDefault", "cudaStreamLegacy", "cudaStreamPerThread"];
/// What stands around them where they are converted.
const CONVERTED: [(&str, &str); 4] =
    [("(cudaStream_t)", ""), ("cudaStream_t(", ")"), ("static_cast<cudaStream_t>(", ")"), ("cudaStream_t{", "}")];

/// Whether a stream is the default one, also where the function has given it a name.
fn is_default(code: &Code, argument: &Range<usize>) -> bool {
    let text: String = code.words(argument.clone()).collect();
    let inside = |(before, after): &(&str, &str)| text.strip_prefix(before)?.strip_suffix(after).map(str::to_owned);
    let is_one = |text: &str| DEFAULT.contains(&text);
    is_one(&text)
        || text == "cudaStream_t{}"
        || text.contains("getDefaultCUDAStream")
        || CONVERTED.iter().filter_map(inside).any(|text| is_one(&text))
        || initializer(code, argument).is_some_and(|value| is_default(code, &value))
}

/// What a `cudaStream_t` of the same function is initialized with, if the argument is its name.
fn initializer(code: &Code, argument: &Range<usize>) -> Option<Range<usize>> {
    let body = code.function_at(argument.start)?.body.start..argument.start;
    let name = code.word(argument.start);
    let is_declared =
        |at: &usize| code.word(*at) == "cudaStream_t" && code.word(*at + 1) == name && code.word(*at + 2) == "=";
    let at = body.rev().find(is_declared).filter(|_| argument.len() == 1)?;
    let end = (at + 3..argument.start).find(|at| code.word(*at) == ";")?;
    Some(at + 3..end)
}

const NEXT: &str = "work of the caller's stream is not waited for, and graphs cannot capture it; pass the caller's \
                    stream, at::cuda::getCurrentCUDAStream() or the stable ABI's";

fn stream(code: &Code, launch: &Launch, findings: &mut Findings) {
    let wrong = match launch.configuration.as_slice() {
        [_, _] | [_, _, _] => true,
        [_, _, _, stream] => is_default(code, stream),
        _ => false,
    };
    if wrong {
        let name = if launch.kernel.is_empty() { "a kernel" } else { launch.kernel.as_str() };
        let bytes = code.token_bytes(launch.at);
        let message = format!("{name} is launched on the default stream: {NEXT}");
        findings.add("cuda/default-stream", &code.text, &bytes, message);
    }
}

/// `cudaLaunchKernel(function, grid, block, arguments, shared, stream)`
fn call(code: &Code, at: usize, last: &mut BTreeMap<usize, (usize, usize)>, findings: &mut Findings) {
    let Some((arguments, close)) = code.arguments(at + 1) else {
        return;
    };
    let bytes = code.token_bytes(at);
    if let [_, _, _, _, rest @ ..] = arguments.as_slice() {
        let wrong = match rest {
            [_, stream] => is_default(code, stream),
            _ => rest.len() < 2,
        };
        if wrong {
            let message = format!("cudaLaunchKernel is given the default stream: {NEXT}");
            findings.add("cuda/default-stream", &code.text, &bytes, message);
        }
    }
    // A statement of its own, which discards the result.
    let dropped = at.checked_sub(1).is_some_and(|before| matches!(code.word(before), ";" | "{" | "}"))
        && code.word(close + 1) == ";";
    if dropped && let Some(function) = code.function_at(at) {
        let latest = last.entry(function.body.start).or_insert((at, close + 1));
        *latest = (*latest).max((at, close + 1));
    }
}

/// Whether the words of a name suggest a check of CUDA's last error.
fn notices(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.contains("lasterror")
        || name.contains("last_error")
        || name.contains("check") && ["launch", "cuda", "kernel", "error", "gpu"].iter().any(|part| name.contains(part))
}

fn unchecked(code: &Code, at: usize, end: usize, findings: &mut Findings) {
    let Some(function) = code.function_at(at) else {
        return;
    };
    if notices_in(code, end..function.body.end) || called_and_noticed(code, function) {
        return;
    }
    let bytes = code.token_bytes(at);
    let message = "no error check follows the launch in this function or its callers here, so a failed one is silent; \
                   write C10_CUDA_KERNEL_LAUNCH_CHECK(), or return cudaGetLastError()";
    findings.add("cuda/launch-unchecked", &code.text, &bytes, message);
}

fn notices_in(code: &Code, mut range: Range<usize>) -> bool {
    range.any(|at| code.is_name(at) && code.word(at + 1) == "(" && notices(code.word(at)))
}

/// The maximum number of uses examined; a name used more often is not specific.
const MOST_USES: usize = 100;

/// Whether a function of this file calls this one and checks for errors afterwards.
fn called_and_noticed(code: &Code, function: &Function) -> bool {
    code.uses(&function.name).iter().take(MOST_USES).any(|at| {
        code.function_at(*at)
            .is_some_and(|caller| caller.body != function.body && notices_in(code, at + 1..caller.body.end))
    })
}

/// A function that takes tensors and launches must make their device current.
fn guard(code: &Code, launch: &Launch, function: &Function, findings: &mut Findings) {
    let takes_tensors = function.parameters.iter().any(|parameter| parameter.kind.iter().any(|word| word == "Tensor"));
    let guarded = code.words(function.body.start..launch.at).any(|word| {
        let word = word.to_ascii_lowercase();
        word.contains("guard") || word == "cudasetdevice"
    });
    if takes_tensors && !guarded {
        let message = "nothing makes the tensors' device the current one, so the launch fails where it is another; \
                       write `const at::cuda::OptionalCUDAGuard guard(device_of(input));` before it";
        let bytes = code.token_bytes(launch.at);
        findings.add("cuda/device-guard", &code.text, &bytes, message);
    }
}
