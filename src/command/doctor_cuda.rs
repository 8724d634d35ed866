//! The CUDA part of `kernels doctor`: compiler, driver, cards, and whether they fit together.
//!
//! A machine without any of them has no problem: installing skills needs none.

use serde_json::{Value, json};

use super::toolchain::{describe, host_json, toolchain_json};
use crate::base::arch;
use crate::base::text::numbers;
use crate::gpu::{self, Card};
use crate::report::{Output, style};
use crate::toolchain::{HostCompiler, Known, Toolchain, release};

pub(crate) fn show(output: Output) -> Value {
    let toolchain = Toolchain::find();
    let host = HostCompiler::find();
    let cards = gpu::probe();
    let label = |text: &str| style::strong(text);
    match &toolchain {
        Ok(found) => output.line(format!(
            "{} {}  {}  {}",
            label("CUDA compiler"),
            describe(found),
            found.origin,
            style::faint(found.nvcc.display())
        )),
        Err(error) => output.line(format!("{} {error}", label("CUDA compiler"))),
    }
    match &host {
        Ok(host) => {
            output.line(format!("{} {}  {}", label("host compiler"), host.version, style::faint(host.path.display())));
        }
        // Only nvcc needs a host compiler.
        Err(error) if toolchain.is_ok() => {
            output.line(format!("{} {error}", label("host compiler")));
        }
        Err(_) => {}
    }
    match &cards {
        Ok(cards) if cards.is_empty() => output.line(format!("{} none", label("cards"))),
        Ok(cards) => {
            for card in cards {
                output.line(format!("{} {}", label("card"), describe_card(card)));
            }
        }
        Err(why) => output.line(format!("{} none: {why}", label("cards"))),
    }
    let remarks = remarks(toolchain.as_ref().ok(), cards.as_deref().unwrap_or_default());
    for remark in &remarks {
        output.line(format!("{} {remark}", style::warning("note")));
    }
    json!({
        "toolchain": toolchain.as_ref().ok().map(toolchain_json),
        "toolchain_problem": toolchain.as_ref().err().map(ToString::to_string),
        "host_compiler": host.as_ref().ok().map(host_json),
        "host_compiler_problem": host.as_ref().err().map(ToString::to_string),
        "cards": cards.as_ref().ok(),
        "card_names": cards.as_ref().ok().map(|cards| cards.iter().map(Card::slug).collect::<Vec<_>>()),
        "cards_problem": cards.as_ref().err(),
        "notes": remarks,
    })
}

fn describe_card(card: &Card) -> String {
    let driver = card.driver.as_deref().unwrap_or("of unknown version");
    #[allow(clippy::cast_precision_loss, reason = "GiB to one place behind the point")]
    let gib = card.memory_bytes as f64 / f64::from(1 << 30);
    format!("{}  sm_{}  {gib:.1} GiB  driver {driver}, CUDA {}", card.name, card.arch, card.cuda)
}

/// Incompatibilities between compiler, driver and cards.
fn remarks(toolchain: Option<&Toolchain>, cards: &[Card]) -> Vec<String> {
    let mut remarks = Vec::new();
    let Some(toolchain) = toolchain else {
        return remarks;
    };
    let ours = toolchain.release().unwrap_or_default();
    if !toolchain.is_pinned() {
        remarks.push(format!(
            "nvcc {} is not the pinned {}: evidence recorded with it is not comparable; \
             `kernels toolchain install`, and CUDA_HOME set to it, gives the pinned one",
            toolchain.version,
            Toolchain::PINNED
        ));
    }
    let archs = toolchain.archs(&Known::nothing()).unwrap_or_default();
    for card in cards {
        let name = &card.name;
        if let Some(theirs) = release(&card.cuda) {
            if theirs.0 < ours.0 {
                remarks.push(format!(
                    "{name}: the driver supports CUDA {} and loads nothing that nvcc {} makes; install a newer driver or an older toolkit",
                    card.cuda, toolchain.version
                ));
            } else if theirs < ours {
                remarks.push(format!(
                    "{name}: the driver supports CUDA {}: it loads machine code of nvcc {}, but its compiler refuses that PTX, which \
                     `kernels verify` runs for the T4 and A100 code paths; use a newer driver or --native-only",
                    card.cuda, toolchain.version
                ));
            }
        }
        if !archs.is_empty() && !archs.contains(&card.arch) {
            remarks.push(format!(
                "{name}: nvcc {} makes no code for sm_{}; install a toolkit that does",
                toolchain.version, card.arch
            ));
        } else if !arch::known().contains(&card.arch) {
            remarks.push(format!(
                "{name}: `kernels build` does not know sm_{}; it compiles for {}",
                card.arch,
                numbers(&arch::known())
            ));
        }
    }
    remarks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(arch: u32, cuda: &str) -> Card {
        Card {
            name: "A card".to_owned(),
            arch,
            sms: 1,
            l2_bytes: 1,
            memory_bytes: 1 << 34,
            driver: None,
            cuda: cuda.to_owned(),
            peak_gbs: None,
            peak_l2_gbs: None,
        }
    }

    fn toolchain(version: &str) -> Toolchain {
        Toolchain {
            nvcc: "/nowhere/bin/nvcc".into(),
            version: version.to_owned(),
            origin: "PATH".to_owned(),
            library_dirs: Vec::new(),
        }
    }

    #[test]
    fn what_does_not_fit_is_said_and_nothing_else() {
        let of = |version: &str, arch, cuda: &str| remarks(Some(&toolchain(version)), &[card(arch, cuda)]).join("\n");
        assert_eq!(of("13.0.88", 90, "13.0"), "");
        assert_eq!(of("13.0.88", 90, "13.2"), "");
        assert!(of("13.0.88", 90, "12.8").contains("loads nothing"));
        assert!(of("13.2.1", 90, "13.0").contains("refuses that PTX"));
        assert!(of("13.2.1", 90, "13.2").contains("not the pinned 13.0.88"));
        assert!(of("13.0.88", 130, "13.0").contains("does not know sm_130"));
        assert!(remarks(None, &[card(90, "12.0")]).is_empty());
    }
}
