//! Signatures of published variants: what `kernels publish --sign` makes, and what `kernels hub verify` makes of those that were
//! changed, exchanged, removed or made by somebody else.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use crate::support::hub::{Demo, Server, VARIANTS};
use crate::support::{Ran, executable, ssh_key, write};

/// An SSH key without a passphrase, and a file of signers that allows it to this principal.
fn key(demo: &Demo, principal: &str) -> (PathBuf, PathBuf) {
    let key = demo.test.root().join(principal);
    let public = ssh_key(&key);
    let signers = demo.test.root().join(format!("{principal}-signers"));
    write(&signers, format!("{principal} {public}"));
    (key, signers)
}

/// `kernels`, with the tests' own programs before those of the system.
fn run(demo: &Demo, server: &Server, bin: &Path, typed: &[&str]) -> Ran {
    let mut command = demo.command(server, typed[0]);
    command.args(&typed[1..]).env("PATH", format!("{}:/usr/bin:/bin", bin.display()));
    Ran::of(&mut command)
}

fn place(variant: &str) -> String {
    format!("signatures/{variant}.sig")
}

#[test]
fn an_ssh_key_signs_once_and_any_other_signature_is_refused() {
    let (server, demo) = (Server::new(), Demo::new());
    let ((me, signers), (other, others)) = (key(&demo, "me"), key(&demo, "mallory"));
    let sign = format!("--sign={}", me.display());
    let plan = demo.publish(&server, &format!("{sign} --dry-run"));
    assert_eq!(plan["signs"], json!([VARIANTS[1], VARIANTS[0]]));
    let report = demo.publish(&server, &sign);
    assert_eq!(report["signed"], json!([VARIANTS[1], VARIANTS[0]]));
    let files = server.files("v1");
    assert!(VARIANTS.iter().all(|variant| files.contains_key(&place(variant))), "{files:?}");
    // The Hub's library takes no other file into a variant.
    assert!(!files.keys().any(|path| path.starts_with("build/") && path.contains(".sig")));
    let again = demo.publish(&server, &sign);
    assert_eq!((&again["status"], &again["signed"]), (&json!("no_changes"), &json!([])));
    assert_eq!(demo.publish(&server, "")["status"], "no_changes");

    let verify = |options: &str| demo.run(&server, format!("hub verify acme/demo --all-variants {options}").trim_end());
    let (mine, theirs) = (format!("--key {}", signers.display()), format!("--key {}", others.display()));
    verify(&mine).expect(0, &["verified", "signed by me"]);
    verify("").expect(0, &["was not checked", "--key"]);
    verify(&theirs).expect(1, &["differs", "not signed by anyone"]);
    verify("--key /nowhere").expect(1, &["cannot read /nowhere"]);
    verify(&format!("{mine} --signer x")).expect(2, &["cannot be used with"]);

    let [first, second] = VARIANTS.map(|variant| server.text("v1", &place(variant)));
    let put = |text: Option<&str>| server.put("v1", &place(VARIANTS[0]), text);
    // Exchanged, changed, cut.
    for wrong in [&second, &first.replacen("U1NIU0lH", "U1NIU0lI", 1), &first[..first.len() / 2], ""] {
        put(Some(wrong));
        verify(&mine).expect(1, &["its signature is not valid"]);
        verify("").expect(1, &["its signature is not valid"]);
    }
    // Somebody else's, of the same file; and mine, made for another purpose.
    let metadata = demo.root.join("build").join(VARIANTS[0]).join("metadata.json");
    let made = |key: &Path, purpose: &str| {
        let mut command = Command::new("ssh-keygen");
        command.args(["-q", "-Y", "sign", "-n", purpose, "-f"]).arg(key).stdin(fs::File::open(&metadata).unwrap());
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    put(Some(&made(&other, "kernels-variant")));
    verify(&mine).expect(1, &["not signed by anyone"]);
    verify("").expect(0, &["was not checked"]);
    put(Some(&made(&me, "kernels-evidence")));
    verify(&mine).expect(1, &["its signature is not valid"]);
    put(None);
    verify(&mine).expect(1, &["not signed"]);
    verify("").expect(0, &["not signed"]);
    // What is missing is signed again, and nothing else; --force signs all.
    assert_eq!(demo.publish(&server, &sign)["signed"], json!([VARIANTS[0]]));
    verify(&mine).expect(0, &["signed by me"]);
    let forced = demo.publish(&server, &format!("--force --sign={}", other.display()));
    assert_eq!(forced["signed"].as_array().unwrap().len(), 2);
    verify(&theirs).expect(0, &["signed by mallory"]);
    // A signature does not outlive what it signs, and an old version does not pass for a new one.
    demo.variant(VARIANTS[0], "\"other\"");
    demo.publish(&server, "");
    assert!(!server.files("v1").contains_key(&place(VARIANTS[0])));
    assert!(server.files("v1").contains_key(&place(VARIANTS[1])));
    demo.publish(&server, &format!("{sign} --branch v2"));
    demo.run(&server, &format!("hub verify acme/demo@2 --all-variants {mine}"))
        .expect(1, &["metadata.json is of version 1, and this is v2"]);
    demo.run(&server, "publish --unproved --sign=/nowhere").expect(1, &["cannot read the key /nowhere"]);
}

/// In place of cosign, which no registry of packages has: its arguments as version 3 takes them, and a signature that holds for
/// the file and the signer that stand in it. It cannot show that real signatures hold.
const COSIGN: &str = r#"#!/bin/sh
echo "$@" >> "${0%/*}/arguments"
verb=$1 key= bundle= like=
for argument; do
    case $before in --key) key=$argument ;; --bundle) bundle=$argument ;; --certificate-identity-regexp) like=$argument ;; esac
    case $argument in */metadata.json) file=$argument ;; esac
    before=$argument
done
digest=$(sha256sum < "$file" | cut -c1-64)
if [ $verb = sign-blob ]; then
    kind='"certificate": {}' by=https://github.com/acme/demo/.github/workflows/kernels.yml@refs/tags/v1.0
    [ -z "$key" ] || kind='"publicKey": {}' by=${key%.key}.pub
    [ -e "${0%/*}/old" ] && echo '{}' > "$bundle" && exit
    echo "{\"mediaType\": \"x\", \"verificationMaterial\": {$kind}, \"of\": \"$digest\", \"by\": \"$by\"}" > "$bundle"
    exit
fi
grep -q "\"$digest\"" "$bundle" || { echo "error: invalid signature" >&2; exit 1; }
if [ -n "$key" ]; then grep -q "\"$key\"" "$bundle"; else grep -q '"certificate"' "$bundle" && grep -Eq "\"by\": \".*$(echo "$like" | tr -d '^$')" "$bundle"; fi ||
    { echo "error: none of the expected identities matched" >&2; exit 1; }
"#;

#[test]
fn cosign_signs_beside_the_metadata_and_who_may_have_signed_is_asked() {
    let (server, demo) = (Server::new(), Demo::new());
    let bin = demo.test.root().join("bin");
    fs::create_dir_all(&bin).unwrap();
    run(&demo, &server, &bin, &["publish", "--unproved", "--sign"])
        .expect(1, &["cosign", "not installed", "--sign=KEY"]);
    assert_eq!(server.state()["repos"], json!({}), "nothing may be published unsigned");
    let cosign = bin.join("cosign");
    executable(&cosign, COSIGN);
    write(&bin.join("old"), "");
    run(&demo, &server, &bin, &["publish", "--unproved", "--sign"]).expect(1, &["version 3 or later"]);
    fs::remove_file(bin.join("old")).unwrap();
    run(&demo, &server, &bin, &["publish", "--unproved", "--sign"]).expect(0, &["published", "signed"]);
    // As kernels-community's workflow calls it.
    let said = fs::read_to_string(bin.join("arguments")).unwrap();
    let last = said.lines().last().unwrap();
    assert!(last.starts_with("sign-blob ") && last.contains("/metadata.json --bundle ") && last.ends_with(" --yes"));
    let path = |variant: &str| format!("build/{variant}/metadata.json.sigstore");
    let bundles = VARIANTS.map(|variant| server.text("v1", &path(variant)));
    let verify = |options: &[&str]| {
        run(&demo, &server, &bin, &[&["hub", "verify", "acme/demo", "--all-variants"][..], options].concat())
    };
    verify(&["--signer", "^https://github.com/acme/demo/"]).expect(0, &["signed by ^https://github.com/acme/demo/"]);
    verify(&["--signer", "^https://github.com/mallory/"]).expect(1, &["not valid", "none of the expected identities"]);
    verify(&[]).expect(0, &["somebody else than kernels-community", "--signer"]);
    // Exchanged, and removed.
    server.put("v1", &path(VARIANTS[0]), Some(&bundles[1]));
    for options in [&[][..], &["--signer", "acme"]] {
        verify(options).expect(1, &["its signature is not valid: error: invalid signature"]);
    }
    server.put("v1", &path(VARIANTS[0]), None);
    verify(&["--signer", "acme"]).expect(1, &["not signed"]);
    run(&demo, &server, &bin, &["publish", "--unproved", "--sign"]).expect(0, &["published"]);
    assert_eq!(server.text("v1", &path(VARIANTS[0])), bundles[0]);
    // With a key: the public half says who.
    let (private, public) = (demo.test.root().join("c.key"), demo.test.root().join("c.pub"));
    write(&private, "-----BEGIN ENCRYPTED SIGSTORE PRIVATE KEY-----\n");
    write(&public, "-----BEGIN PUBLIC KEY-----\n");
    let sign = format!("--sign={}", private.display());
    run(&demo, &server, &bin, &["publish", "--unproved", "--force", &sign]).expect(0, &["published", "signed"]);
    verify(&["--key", public.to_str().unwrap()]).expect(0, &["signed by", "c.pub"]);
    verify(&[]).expect(0, &["signed with a key of cosign", "--key"]);
    verify(&["--signer", "acme"]).expect(1, &["its signature is not valid"]);
    let (_, signers) = key(&demo, "me");
    verify(&["--key", signers.to_str().unwrap()]).expect(1, &["--key names keys of SSH"]);
    let kms = ["publish", "--unproved", "--force", "--sign=awskms://alias/x"];
    run(&demo, &server, &bin, &kms).expect(0, &["signed"]);
    assert!(fs::read_to_string(bin.join("arguments")).unwrap().contains("--key awskms://alias/x"));
}
