"""A Kernel Hub on loopback, in memory: history, branches, tags, pull requests, LFS, and the faults that a test asks for.

    server.py [CAS]    stdout: its port. With the address of a content-addressed store, large files are wanted by Xet, and lie there

POST /_fault {"at": N, "every": M, "after": true, "status": 503}   the N-th request from now on fails, and after it each M-th: with
                                           this status, else its connection is cut; before what it asks for is done, or after
POST /_fault {"lfs": "xet" or "parts"}     large files are wanted in another way
POST /_fault {"status": 429, "of": "POST /api/kernels/acme/demo/commit", "times": 1, "retry": 0}
POST /_put {"repo", "branch", "files": {PATH: BASE64 or null}}   somebody else's commit
POST /_lie {"of": "GET /api", "replace": {TEXT: TEXT}, "headers": {NAME: VALUE}, "status": N, "endless": true, "put": {…}}
                                           answers to such requests are changed; `put` is somebody's commit before the first of them
GET  /_state       branches, tags, files, the requests so far, and what a reader could have seen half of
"""

import base64, functools, hashlib, json, re, sys, threading, time, urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

LOCK = threading.RLock()
REPOS, OBJECTS, FAULTS, LIE, LOG, HALF, MADE, LOOKED = {}, {}, {}, {}, [], [], [], set()
WRITER, READER = "Bearer hf_secret", "Bearer hf_reader"
CAS = sys.argv[1] if len(sys.argv) > 1 else None
STORED = {}


class Answer(Exception):
    def __init__(self, status, body=None, **headers):
        self.status, self.body, self.headers = status, body, {k.replace("_", "-"): v for k, v in headers.items()}


@functools.cache
def blob(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


@functools.cache
def pointer(data):
    return hashlib.sha1(b"pointer" + data).hexdigest()


@functools.cache
def sha256(data):
    return hashlib.sha256(data)


def stored(sha256_of):
    """The bytes of a file that lies in the store, and its name there."""
    ask = lambda path: urllib.request.urlopen(f"{CAS}/simulation/{path}").read()
    if sha256_of not in STORED:
        for entry in json.loads(ask("file_entries")):
            name = entry["file_hash"]
            name = name if isinstance(name, str) else "".join("%016x" % part for part in name)
            data = ask(f"files/{name}/data")
            STORED[sha256(data).hexdigest()] = (data, name)
    return STORED.get(sha256_of)


class Repo:
    def __init__(self, private):
        self.private, self.commits, self.tags, self.pulls = private, {}, {}, {}
        self.branches = {"main": self.commit(None, {".gitattributes": (b"*.so filter=lfs\n", False)}, "initial commit")}

    def commit(self, parent, files, summary):
        digests = [(path, blob(data)) for path, (data, _) in sorted(files.items())]
        name = hashlib.sha1(repr((parent, digests, len(self.commits), summary)).encode()).hexdigest()
        self.commits[name] = {"parent": parent, "files": files, "summary": summary}
        return name

    def at(self, revision):
        revision = revision.removeprefix("refs/heads/")
        name = self.branches.get(revision) or self.tags.get(revision) or self.pulls.get(revision) or revision
        if name not in self.commits:
            raise Answer(404, {"error": "Invalid rev id"}, X_Error_Code="RevisionNotFound")
        return name, self.commits[name]["files"]

    def look(self):
        """What get_kernel(version=N) would find: every variant whole."""
        for branch, commit in self.branches.items():
            if not re.fullmatch(r"v\d+", branch) or commit in LOOKED:
                continue
            LOOKED.add(commit)
            files = self.commits[commit]["files"]
            variants = {path.split("/")[1] for path in files if path.startswith("build/")}
            if not variants:
                HALF.append(f"{branch} without variants")
            for variant in variants:
                top = f"build/{variant}/"
                data = files.get(top + "metadata.json")
                if data is None:
                    HALF.append(f"{branch}: {variant} without metadata.json")
                    continue
                for path, digest in json.loads(data[0]).get("digest", {}).get("files", {}).items():
                    found = files.get(top + path, (b"", False))[0]
                    if base64.b64encode(sha256(found).digest()).decode() != digest:
                        HALF.append(f"{branch}: {variant}/{path}")


class Hub(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def handle_any(self):
        url = urlsplit(self.path)
        self.query = parse_qs(url.query)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        failed = None
        with LOCK:
            try:
                if url.path.startswith("/_") and not url.path.startswith(("/_lfs", "/_cdn")):
                    raise Answer(200, self.admin(url.path, body))
                name = f"{self.command} {url.path}"
                LOG.append({"request": name, "token": self.headers.get("Authorization"), "host": self.headers["Host"]})
                if name.startswith(LIE.get("of", "-")) and "put" in LIE:
                    self.put(LIE.pop("put"))
                if "at" in FAULTS:
                    FAULTS["at"] -= 1
                    if FAULTS["at"] == 0:
                        FAULTS["at"] = FAULTS.get("every", 0)
                        MADE.append(name)
                        failed = FAULTS.get("status", "cut")
                        if not FAULTS.get("after"):
                            raise Answer(failed, {"error": "as the test wished"}, Retry_After="0")
                if FAULTS.get("of") and name.startswith(FAULTS["of"]) and FAULTS["times"] > 0:
                    FAULTS["times"] -= 1
                    retry = {"Retry_After": str(FAULTS["retry"])} if "retry" in FAULTS else {}
                    raise Answer(FAULTS["status"], {"error": "as the test wished"}, **retry)
                self.route(self.command.replace("HEAD", "GET"), [unquote(part) for part in url.path.split("/")[1:]], body)
                raise Answer(404, {"error": "no such route"})
            except Answer as answer:
                for repo in REPOS.values():
                    repo.look()
                if failed == "cut":
                    self.close_connection = True
                    return
                self.reply(Answer(failed, {"error": "as the test wished"}, Retry_After="0") if failed else answer)

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = handle_any

    def reply(self, answer):
        data = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
        lie = LIE if f"{self.command} {urlsplit(self.path).path}".startswith(LIE.get("of", "-")) else {}
        for old, new in lie.get("replace", {}).items():
            data = data.replace(old.encode(), new.encode())
        self.send_response(lie.get("status", answer.status))
        for name, value in {**answer.headers, **lie.get("headers", {})}.items():
            self.send_header(name, value)
        if not lie.get("endless"):
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        try:
            if self.command != "HEAD":
                self.wfile.write(data)
            self.close_connection = self.close_connection or bool(lie.get("endless"))
            # A client that takes it all is to fail the test, and not to fill the machine's memory.
            for _ in range(256 if lie.get("endless") else 0):
                self.wfile.write(bytes(1 << 20))
        except ConnectionError:
            pass

    def admin(self, path, body):
        body = json.loads(body or b"{}")
        if path == "/_fault":
            FAULTS.clear()
            FAULTS.update(body)
        if path == "/_lie":
            LIE.clear()
            LIE.update(body)
        if path == "/_put":
            self.put(body)
        state = lambda repo: {
            "private": repo.private, "tags": repo.tags, "pulls": repo.pulls, "commits": len(repo.commits),
            "branches": {branch: {"commit": commit, "parent": repo.commits[commit]["parent"],
                                  "summary": repo.commits[commit]["summary"],
                                  "files": {path: blob(data) for path, (data, _) in repo.commits[commit]["files"].items()}}
                         for branch, commit in repo.branches.items()}}
        return {"repos": {name: state(repo) for name, repo in REPOS.items()}, "log": LOG, "half": HALF, "faults": FAULTS, "made": MADE}

    def put(self, ask):
        repo = REPOS.setdefault(ask["repo"], Repo(False))
        start = repo.branches.get(ask["branch"], repo.branches["main"])
        files = dict(repo.commits[start]["files"])
        for name, text in ask["files"].items():
            files.pop(name, None)
            if text is not None:
                data = base64.b64decode(text)
                files[name] = (data, name.endswith(".so"))
                OBJECTS[sha256(data).hexdigest()] = data
        repo.branches[ask["branch"]] = repo.commit(start, files, "somebody else's")

    def may_write(self):
        token = self.headers.get("Authorization")
        if token not in (WRITER, READER):
            raise Answer(401, {"error": f"Invalid credentials in {token}"})
        if token == READER:
            raise Answer(403, {"error": "You don't have the rights"})

    def route(self, method, path, body):
        base = f"http://{self.headers['Host']}"
        match [method, *path]:
            case ["POST", "api", "repos", "create"]:
                self.may_write()
                ask = json.loads(body)
                name = f"{ask['organization']}/{ask['name']}"
                if ask["type"] != "kernel" or name in REPOS:
                    raise Answer(409, {"error": "You already created this kernel repo"})
                REPOS[name] = Repo(ask.get("visibility") == "private")
                raise Answer(200, {"url": f"{base}/kernels/{name}"})
            case ["GET", "github", "identity"]:
                # GitHub's own service, which vouches for a job.
                known = self.headers.get("Authorization") == "Bearer of-the-runner" and self.query.get("audience") == [base]
                raise Answer(200 if known else 401, {"value": "jwt-of-the-job"} if known else {})
            case ["POST", "oauth", "token"]:
                ask = json.loads(body)
                if ask["subject_token"] != "jwt-of-the-job" or ask["resource"] != "kernels/acme/demo":
                    raise Answer(400, {"error": "invalid_grant", "error_description": "no such publisher"})
                raise Answer(200, {"access_token": WRITER.split()[1], "expires_in": 3600})
            case ["GET", "api", "organizations", _, "overview"]:
                raise Answer(200, {"name": "acme", "fullname": "Acme", "avatarUrl": "", "trustedKernelPublisher": True})
            case ["PUT", "_lfs", oid]:
                if sha256(body).hexdigest() != oid or self.query.get("signed") != ["yes"]:
                    raise Answer(400, {"error": "not what was announced"})
                OBJECTS[oid] = body
                raise Answer(200, {})
            case ["POST", "_lfs", "verify"]:
                ask = json.loads(body)
                raise Answer(200 if len(OBJECTS.get(ask["oid"], b"")) == ask["size"] else 404, {})
            case ["GET", "_cdn", oid]:
                raise Answer(200, OBJECTS[oid])
            case ["GET", "kernels", owner, name, "resolve", revision, *rest]:
                self.resolve(self.repo(owner, name), revision, "/".join(rest))
            case ["POST", "kernels", owner, git, "info", "lfs", "objects", "batch"]:
                self.may_write()
                self.repo(owner, git.removesuffix(".git"))
                other = f"http://localhost:{self.server.server_port}"
                actions = lambda oid: {} if oid in OBJECTS else {"actions": {
                    "upload": {"href": f"{other}/_lfs/{oid}?signed=yes", "header": {"X-Amz": "1"}},
                    "verify": {"href": f"{base}/_lfs/verify"}}}
                objects = [one | actions(one["oid"]) for one in json.loads(body)["objects"]]
                for one in objects if FAULTS.get("lfs") == "parts" else []:
                    one["actions"]["upload"]["header"] = {"chunk_size": "1000", "00001": f"{other}/_lfs/part"}
                xet = CAS or FAULTS.get("lfs") == "xet"
                raise Answer(200, {"transfer": "xet" if xet else "basic", "objects": json.loads(body)["objects"] if xet else objects})
            case [_, "api", "kernels", owner, name, *rest]:
                self.api(method, self.repo(owner, name), rest, body)

    def repo(self, owner, name):
        repo = REPOS.get(f"{owner}/{name}")
        if repo is None or repo.private and self.headers.get("Authorization") is None:
            raise Answer(404 if self.headers.get("Authorization") else 401, {"error": "Repository not found"},
                         X_Error_Code="RepoNotFound")
        return repo

    def resolve(self, repo, revision, path):
        commit, files = repo.at(revision)
        if path not in files:
            raise Answer(404, {"error": "Entry not found"}, X_Error_Code="EntryNotFound")
        data, lfs = files[path]
        if lfs:
            oid = sha256(data).hexdigest()
            token = f"http://{self.headers['Host']}/api/kernels/acme/demo/xet-read-token/{commit}"
            xet = {"X_Xet_Hash": stored(oid)[1], "X_Xet_Refresh_Route": token} if CAS and stored(oid) else {}
            raise Answer(302, b"", X_Repo_Commit=commit, X_Linked_ETag=f'"{oid}"', X_Linked_Size=str(len(data)), **xet,
                         Location=f"http://localhost:{self.server.server_port}/_cdn/{oid}")
        raise Answer(200, data, X_Repo_Commit=commit, ETag=f'"{blob(data)}"')

    def api(self, method, repo, rest, body):
        match [method, *rest]:
            case ["GET"] | ["GET", "revision", _]:
                commit, files = repo.at(rest[1] if rest else "main")
                raise Answer(200, {"id": "acme/demo", "sha": commit, "private": repo.private,
                                   "siblings": [{"rfilename": path} for path in files]})
            case ["GET", "refs"]:
                refs = lambda kind, all: [{"name": name, "ref": f"refs/{kind}/{name}", "targetCommit": commit} for name, commit in all.items()]
                raise Answer(200, {"branches": refs("heads", repo.branches), "tags": refs("tags", repo.tags), "converts": []})
            case ["GET", "xet-read-token", _]:
                self.store("xet_reads")
            case ["GET", "tree", revision, *folder]:
                self.tree(repo, revision, "/".join(folder))
        self.may_write()
        match [method, *rest]:
            case ["GET", "xet-write-token", revision]:
                repo.at(revision)
                self.store("xet_writes")
            case ["POST", "branch", branch]:
                if branch in repo.branches:
                    raise Answer(409, {"error": "Reference already exists"})
                repo.branches[branch] = repo.at(json.loads(body).get("startingPoint", "main"))[0]
                raise Answer(200, {})
            case ["DELETE", "branch", branch]:
                if repo.branches.pop(branch, None) is None:
                    raise Answer(404, {"error": "no such branch"}, X_Error_Code="RevisionNotFound")
                raise Answer(200, {})
            case ["POST", "tag", revision]:
                tag = json.loads(body)["tag"]
                if tag in repo.tags:
                    raise Answer(409, {"error": "Tag exists"})
                repo.tags[tag] = repo.at(revision)[0]
                raise Answer(200, {})
            case ["POST", "preupload", revision]:
                repo.at(revision)
                large = lambda file: file["path"].endswith(".so") or file["size"] > 1_000_000
                raise Answer(200, {"files": [{"path": file["path"], "uploadMode": "lfs" if large(file) else "regular",
                                              "shouldIgnore": False} for file in json.loads(body)["files"]]})
            case ["POST", "commit", branch]:
                self.commit(repo, branch, [json.loads(line) for line in body.splitlines()])

    def store(self, token):
        until, cas = int(time.time()) + 3600, CAS or "http://127.0.0.1:9"
        raise Answer(200, {"casUrl": cas, "accessToken": token, "exp": until}, X_Xet_Cas_Url=cas, X_Xet_Access_Token=token,
                     X_Xet_Token_Expiration=str(until))

    def tree(self, repo, revision, folder):
        _, files = repo.at(revision)
        top = f"{folder}/" if folder else ""
        found = {path: file for path, file in files.items() if path.startswith(top)}
        if folder and not found:
            raise Answer(404, {"error": "no such folder"}, X_Error_Code="EntryNotFound")
        folders = {"/".join(path.split("/")[:depth]) for path in found for depth in range(1, path.count("/") + 1)}
        folders = {path for path in folders if path.startswith(top)}
        entries = [{"type": "directory", "path": path, "oid": "0" * 40, "size": 0} for path in sorted(folders)]
        for path, (data, lfs) in sorted(found.items()):
            entry = {"type": "file", "path": path, "oid": blob(data), "size": len(data)}
            if lfs:
                entry |= {"oid": pointer(data), "lfs": {"oid": sha256(data).hexdigest(), "size": len(data), "pointerSize": 130}}
            entries.append(entry)
        if not self.query.get("recursive"):
            entries = [entry for entry in entries if "/" not in entry["path"].removeprefix(top)]
        start, page = int(self.query.get("cursor", ["0"])[0]), 5
        link = {}
        if start + page < len(entries):
            link["Link"] = f"<http://{self.headers['Host']}{urlsplit(self.path).path}?recursive=true&cursor={start + page}>; rel=\"next\""
        raise Answer(200, entries[start:start + page] if self.query.get("recursive") else entries, **link)

    def commit(self, repo, branch, lines):
        if branch not in repo.branches:
            raise Answer(404, {"error": "Invalid rev id"}, X_Error_Code="RevisionNotFound")
        parent = repo.branches[branch]
        if lines[0]["value"].get("parentCommit") != parent:
            raise Answer(412, {"error": "A commit has happened since. Please refresh and try again."})
        files = dict(repo.commits[parent]["files"])
        for line in lines[1:]:
            value = line["value"]
            match line["key"]:
                case "file":
                    files[value["path"]] = (base64.b64decode(value["content"], validate=True), False)
                case "lfsFile":
                    if CAS and stored(value["oid"]):
                        OBJECTS[value["oid"]] = stored(value["oid"])[0]
                    if len(OBJECTS.get(value["oid"], b"")) != value["size"]:
                        raise Answer(400, {"error": f"{value['path']} was never uploaded"})
                    files[value["path"]] = (OBJECTS[value["oid"]], True)
                case "deletedFile":
                    if files.pop(value["path"], None) is None:
                        raise Answer(400, {"error": f"{value['path']} is not there"})
        commit = repo.commit(parent, files, lines[0]["value"]["summary"])
        if self.query.get("create_pr"):
            number = len(repo.pulls) + 1
            repo.pulls[f"refs/pr/{number}"] = commit
            url = f"http://{self.headers['Host']}/kernels/acme/demo/discussions/{number}"
            raise Answer(200, {"success": True, "commitOid": commit, "commitUrl": "", "pullRequestUrl": url})
        repo.branches[branch] = commit
        raise Answer(200, {"success": True, "commitOid": commit, "commitUrl": "", "pullRequestUrl": None})


server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
server.daemon_threads = True
print(server.server_port, flush=True)
threading.Thread(target=lambda: (sys.stdin.read(), server.shutdown()), daemon=True).start()
server.serve_forever()
