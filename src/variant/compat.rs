//! Definitions of symbols that newer compilers reference and `manylinux_2_28` lacks. Only the needed ones are linked, with
//! hidden visibility.

struct Compat {
    symbol: &'static str,
    code: &'static str,
}

const ALL: [Compat; 7] = [
    Compat {
        symbol: "__libc_single_threaded",
        // glibc 2.32: true lets shared_ptr count without atomics. False is always correct, and slower.
        code: "extern \"C\" HIDDEN char __libc_single_threaded = 0;",
    },
    Compat {
        symbol: "_ZSt28__throw_bad_array_new_lengthv",
        // gcc 11: thrown for an oversized array.
        code: "#include <new>\nnamespace std { HIDDEN void __throw_bad_array_new_length() { throw bad_array_new_length(); } }",
    },
    Compat {
        symbol: "_ZSt21ios_base_library_initv",
        // gcc 13: the library initialises the streams of <iostream>; earlier, each translation unit did.
        code: "#include <ios>\nnamespace std { HIDDEN void ios_base_library_init() { static ios_base::Init streams; } }",
    },
    // glibc 2.38: strtol and its like accept 0b101 under C23. The older functions do what the code was compiled for.
    Compat {
        symbol: "__isoc23_strtol",
        code: "extern \"C\" { long old_strtol(const char*, char**, int) __asm__(\"strtol\");\n\
               HIDDEN long __isoc23_strtol(const char* s, char** e, int b) { return old_strtol(s, e, b); } }",
    },
    Compat {
        symbol: "__isoc23_strtoul",
        code: "extern \"C\" { unsigned long old_strtoul(const char*, char**, int) __asm__(\"strtoul\");\n\
               HIDDEN unsigned long __isoc23_strtoul(const char* s, char** e, int b) { return old_strtoul(s, e, b); } }",
    },
    Compat {
        symbol: "__isoc23_strtoll",
        code: "extern \"C\" { long long old_strtoll(const char*, char**, int) __asm__(\"strtoll\");\n\
               HIDDEN long long __isoc23_strtoll(const char* s, char** e, int b) { return old_strtoll(s, e, b); } }",
    },
    Compat {
        symbol: "__isoc23_strtoull",
        code: "extern \"C\" { unsigned long long old_strtoull(const char*, char**, int) __asm__(\"strtoull\");\n\
               HIDDEN unsigned long long __isoc23_strtoull(const char* s, char** e, int b) { return old_strtoull(s, e, b); } }",
    },
];

/// Mathematical functions with a new version that sets errno differently (glibc 2.29, 2.35, 2.38). The old versions
/// exist everywhere with the same results. With the type and the number of arguments.
const MATHEMATICS: [(&str, &str, usize); 9] = [
    ("exp", "double", 1),
    ("exp2", "double", 1),
    ("log", "double", 1),
    ("log2", "double", 1),
    ("pow", "double", 2),
    ("fmod", "double", 2),
    ("fmodf", "float", 2),
    ("hypot", "double", 2),
    ("hypotf", "float", 2),
];

/// A definition for a symbol, for this processor.
pub(super) fn of(symbol: &str, cpu: &str) -> Option<String> {
    // glibc's first version there.
    let oldest = if cpu == "aarch64" { "GLIBC_2.17" } else { "GLIBC_2.2.5" };
    if let Some(known) = ALL.iter().find(|known| known.symbol == symbol) {
        return Some(known.code.to_owned());
    }
    let (name, of, arguments) = MATHEMATICS.iter().find(|(name, ..)| *name == symbol)?;
    let (parameters, values) = match arguments {
        1 => (format!("{of} x"), "x"),
        _ => (format!("{of} x, {of} y"), "x, y"),
    };
    // Declared under another name, because log2 is a compiler builtin.
    Some(format!(
        "extern \"C\" {{ {of} old_{name}({parameters});\n__asm__(\".symver old_{name},{name}@{oldest}\");\n\
         HIDDEN {of} new_{name}({parameters}) __asm__(\"{name}\");\n\
         HIDDEN {of} new_{name}({parameters}) {{ return old_{name}({values}); }} }}"
    ))
}

/// A source file with the given definitions.
pub(super) fn source(definitions: &[String]) -> String {
    format!("#define HIDDEN __attribute__((visibility(\"hidden\")))\n{}\n", definitions.join("\n"))
}
