//! Libraries that have another's symbols and no code: all that a linker needs of it, for another processor as well.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use object::LittleEndian;
use object::elf::{STB_WEAK, STT_OBJECT};
use object::read::ReadCache;
use object::read::elf::{ElfFile64, Sym as _};

use super::install::failed;
use super::{HostCompiler, ToolchainError, clean};

/// Writes a library with the name and the symbols of another, for the compiler's processor; `to` may be the library itself.
pub(crate) fn stand_in(library: &Path, to: &Path, host: &HostCompiler) -> Result<(), ToolchainError> {
    let unreadable = |why: String| ToolchainError(format!("cannot read {}: {why}", library.display()));
    let assembly = names(library).map_err(|error| unreadable(error.to_string()))?;
    let soname = library.file_name().unwrap_or_default().to_string_lossy();
    let (folder, source, made) = (to.parent().unwrap_or(to), to.with_extension("s"), to.with_extension("made"));
    fs::write(&source, assembly).map_err(|error| failed("write", &source, &error))?;
    let output = clean(&mut Command::new(&host.path))
        .current_dir(folder)
        .env("TMPDIR", folder)
        .args(["-shared", "-nostdlib", "-Wl,--build-id=none", "-Wl,--hash-style=gnu"])
        .arg(format!("-Wl,-soname,{soname}"))
        .arg("-o")
        .arg(&made)
        .arg(&source)
        .output()
        .map_err(|error| ToolchainError(format!("cannot run {}: {error}", host.path.display())))?;
    if !output.status.success() {
        return Err(ToolchainError(format!(
            "{} cannot make a stand-in for {soname} ({}):\n{}",
            host.path.display(),
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        )));
    }
    let placed = fs::rename(&made, to).and_then(|()| fs::remove_file(&source));
    placed.map_err(|error| failed("put in place", to, &error))
}

/// The symbols of a library as assembly: functions and data, strong and weak. Each has an address of its own: for every
/// weak symbol, GNU ld compares all symbols at the same address, which takes ten seconds per link where that is one.
fn names(library: &Path) -> Result<String, Box<dyn std::error::Error>> {
    let cache = ReadCache::new(File::open(library)?);
    let elf = ElfFile64::<LittleEndian, _>::parse(&cache)?;
    let symbols = elf.elf_dynamic_symbol_table();
    let mut text = ".section .note.GNU-stack,\"\",@progbits\n.text\n".to_owned();
    for (_, symbol) in symbols.enumerate() {
        let name = symbol.name(LittleEndian, symbols.strings())?;
        if name.is_empty() || symbol.is_undefined(LittleEndian) {
            continue;
        }
        let name = std::str::from_utf8(name)?;
        let binding = if symbol.st_bind() == STB_WEAK { "weak" } else { "globl" };
        let kind = if symbol.st_type() == STT_OBJECT { "object" } else { "function" };
        writeln!(text, ".{binding} \"{name}\"\n.type \"{name}\",@{kind}\n\"{name}\":.byte 0")?;
    }
    Ok(text)
}
