"""Every address in the repository is on a list with a reason: what nobody owns, anybody may register tomorrow."""

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from cxc_eccv.sources.catalog import load_catalog

ROOT = Path(__file__).parents[2]

OWNED = {}
"""The project's own accounts and hosts to who owns them; its owner adds them here (RELEASING.md)."""

HOSTS = {
    "arxiv.org": "papers",
    "clic.cimec.unitn.it": "SICK, by its authors",
    "cocodataset.org": "COCO, by its consortium",
    "creativecommons.org": "a name in the drawings that Matplotlib writes; nothing reads it",
    "cs.pomona.edu": "aligned Wikipedia, by its author's university",
    "cs.stanford.edu": "Karpathy's splits and Visual Genome's photographs, by their authors' university",
    "download.pytorch.org": "PyTorch for processors, by its foundation",
    "docs.aws.amazon.com": "the format of Mechanical Turk's questions, by its makers",
    "hockenmaier.cs.illinois.edu": "Flickr8k, by its author's university",
    "homes.cs.washington.edu": "Visual Genome, by its author's university",
    "images.cocodataset.org": "COCO's photographs and annotations, by its consortium",
    "ixa2.si.ehu.eus": "SemEval's STS, by its organizers' university",
    "json-schema.org": "the name of a version of JSON schemas; nothing reads it",
    "keepachangelog.com": "the form of the changelog",
    "labelstud.io": "the format of Label Studio's tasks, by its makers",
    "matplotlib.org": "who made the drawings; nothing reads it",
    "purl.org": "a name in the drawings that Matplotlib writes; nothing reads it",
    "semver.org": "what a version means",
    "shannon.cs.illinois.edu": "Flickr30k, by its authors' university",
    "wordnet.princeton.edu": "WordNet, by its authors' university",
    "www.apache.org": "the licence",
    "www.mturk.com": "Mechanical Turk",
    "www.w3.org": "names of formats; nothing reads them",
}
NOT_REGISTRABLE = re.compile(r"(.*\.)?example(\.org)?|.*\.invalid|127\.0\.0\.1|localhost|x\.y|[\w-]*")
"""Reserved by RFC 2606 and 6761, or without a known top-level domain."""

ORGANISATIONS = {
    "drive.google.com/drive": "the judgments of CLIPScore's authors, which a person opens",
    "github.com/spec": "the first line of every pointer file; nothing reads it",
    "github.com/allenai": "S2ORC, in a model's card",
    "github.com/embeddings-benchmark": "mteb",
    "github.com/evaleval": "Every Eval Ever, by its authors",
    "github.com/google-research-datasets": "CxC, by its authors",
    "github.com/huggingface": "the Hub's list of evaluation frameworks",
    "github.com/mlfoundations": "open_clip, by its authors",
    "github.com/naver-ai": "ECCV Caption and PCME, by their authors",
    "github.com/necla-ml": "SNLI-VE, by its authors",
    "huggingface.co/HuggingFaceM4": "SNLI-VE as a file, by the Hub's staff",
    "huggingface.co/OpenEvals": "the discussion of new benchmarks, by the Hub's staff",
    "huggingface.co/docs": "the Hub's documentation",
    "huggingface.co/facebook": "XNLI, by its authors",
    "huggingface.co/nyu-mll": "GLUE, by its authors",
    "huggingface.co/openai": "CLIP, by its authors",
    "s3.amazonaws.com/images.cocodataset.org": "COCO's photographs, by its consortium",
}
PEOPLE = {
    "github.com/brmson": "SemEval's files of each year, joined; SICK",
    "github.com/maximek3": "e-SNLI-VE, by its author",
    "github.com/prakhar-dhakar": "Flickr8k's text files, which their authors hand out no more",
    "github.com/zhangzhenhu": "the STS benchmark as a file",
}
"""Accounts of persons: their files are pinned by commit and hash."""

ACTIONS = {"actions": "GitHub's own", "pypa": "the authors of pip and twine"}
MODELS = {
    "HuggingFaceTB": "SmolVLM, by the Hub's staff",
    "Salesforce": "BLIP",
    "google": "SigLIP and ViT",
    "intfloat": "E5, by its author",
    "jinaai": "jina-clip",
    "microsoft": "ResNet",
    "mteb": "a random encoder, by mteb's authors",
    "openai": "CLIP",
    "sentence-transformers": "MiniLM",
}
"""Accounts of the Hub whose models our examples name."""
LOCAL_FOLDERS = ("char_gru", "compared", "loading_scripts")
PLACEHOLDERS = {
    "YOUR_NAME": "the reader's account; the Hub and GitHub take no underscore",
    "OWNER_NAME": "the owner's account; likewise",
    "owner": "the form of a name in help texts, and the owner of tests",
}

ADDRESS = re.compile(r"https?://(?P<host>[\w.-]*\w)")
OF_ACCOUNTS = re.compile(
    r"(?P<host>github\.com|githubusercontent\.com|gitlab\.com|bitbucket\.org|huggingface\.co|hf\.co|kaggle\.com|"
    r"drive\.google\.com|colab\.research\.google\.com|s3\.amazonaws\.com|pypi\.org)(?P<path>/[\w./-]*)?"
)
"""Hosts on which everybody may register an account, also where no scheme precedes them."""
SITES_OF_ACCOUNTS = re.compile(r"[\w-]+\.(?:github\.io|readthedocs\.io|hf\.space)")
HUB_ID = r"(?P<account>[A-Za-z][\w.-]*)/[A-Za-z][\w.-]*"
NAMED_ON_THE_HUB = [
    re.compile(rf"cxc-eccv push \S+ {HUB_ID}"),
    re.compile(rf"--(?:dataset|labels|hub-model-id|model|text-model|image-model)[ =]{HUB_ID}"),
    re.compile(rf"(?:load_dataset|from_pretrained|SentenceTransformer|CrossEncoder|get_model|\.load)\([\"']{HUB_ID}"),
]
"""Where commands and code name a repository of the Hub."""
ONCE_OURS = re.compile(r"(?<![\w./-])(?:cxc-eccv|org|me)/\w+")
"""Names that once stood in our examples, and that others own or may register."""


def find_addresses(text):
    """Accounts as ``host/account``, and hosts on which nobody registers accounts."""
    hosted = [(match["host"], match["path"] or "") for match in OF_ACCOUNTS.finditer(text)]
    hosts = {match["host"] for match in ADDRESS.finditer(text)}
    accounts = {name_account(host, path) for host, path in hosted} - {None}
    return accounts | set(SITES_OF_ACCOUNTS.findall(text)) | {host for host in hosts if not OF_ACCOUNTS.search(host)}


def name_account(host, path):
    """The host with the account that a path begins with, or None."""
    if host == "githubusercontent.com":
        host = "github.com"
    parts = [part for part in path.split("/") if part not in ("", "datasets", "spaces")]
    return f"{host}/{parts[0]}" if parts else None


def is_allowed(address):
    host, _, account = address.partition("/")
    known = {**HOSTS, **ORGANISATIONS, **PEOPLE, **OWNED}
    return address in known or account in PLACEHOLDERS or bool(NOT_REGISTRABLE.fullmatch(host))


def read_texts():
    """Path to text of every file that git knows, but this one, and pictures."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    texts = {}
    for name in filter(None, names):
        path = ROOT / name
        if path.is_file() and path.suffix not in (".jpg", ".png") and path != Path(__file__):
            texts[name] = path.read_bytes().decode("utf-8", "replace")
    return texts


@pytest.fixture(scope="module")
def texts():
    if not (ROOT / ".git").exists():
        pytest.skip("needs a checkout, whose files git knows")
    return read_texts()


@pytest.fixture(scope="module")
def found(texts):
    """Every file with every address in it."""
    return {(name, address) for name, text in texts.items() for address in find_addresses(text)}


def test_every_address_has_a_reason(found):
    assert len(found) > 100
    assert sorted(entry for entry in found if not is_allowed(entry[1])) == []


def test_every_reason_has_an_address(found):
    assert sorted({*HOSTS, *ORGANISATIONS, *PEOPLE, *OWNED} - {address for _, address in found}) == []


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("pip install 'a @ git+https://github.com/someone/a'", "github.com/someone"),
        ("see github.com/someone/a", "github.com/someone"),
        ("https://raw.githubusercontent.com/someone/a/main/b", "github.com/someone"),
        ("https://huggingface.co/datasets/someone/a", "huggingface.co/someone"),
        ("https://hf.co/someone", "hf.co/someone"),
        ("https://colab.research.google.com/github/someone/a", "colab.research.google.com/github"),
        ("https://someone.github.io/a/", "someone.github.io"),
        ("https://pypi.org/project/a", "pypi.org/project"),
        ("http://nobody.net/a", "nobody.net"),
    ],
)
def test_address_of_a_stranger_is_found(text, address):
    assert address in find_addresses(text)
    assert not is_allowed(address)


def test_shown_names_on_the_hub_have_owners(texts):
    shown = {name: text for name, text in texts.items() if not name.startswith("tests/")}
    accounts = {
        (name, match["account"])
        for name, text in shown.items()
        for pattern in NAMED_ON_THE_HUB
        for match in pattern.finditer(text)
    }
    assert len(accounts) > 20
    assert sorted(entry for entry in accounts if entry[1] not in {*MODELS, *PLACEHOLDERS, *LOCAL_FOLDERS}) == []


def test_names_that_were_never_ours_are_gone(texts):
    """Tests name repositories of a Hub on this machine."""
    shown = {name: text for name, text in texts.items() if not name.startswith("tests/")}
    assert [(name, match[0]) for name, text in shown.items() for match in ONCE_OURS.finditer(text)] == []
    assert [name for name, text in texts.items() if re.search(r"\bcxc-eccv(/|\.github)", text)] == []


def test_files_of_persons_are_pinned():
    catalog = load_catalog()
    entries = [entry for entry in catalog if entry.url and find_addresses(entry.url) & PEOPLE.keys()]
    assert len(entries) > 20
    for entry in entries:
        assert re.search(r"/[0-9a-f]{40}/", entry.url), entry.name
        assert entry.sha256, entry.name


def test_files_of_accounts_are_pinned_by_commit():
    urls = [entry.url for entry in load_catalog() if entry.url and OF_ACCOUNTS.search(entry.url)]
    assert [url for url in urls if not re.search(r"/[0-9a-f]{40}/", url)] == []


def test_actions_are_of_known_accounts():
    paths = (ROOT / ".github" / "workflows").glob("*.yml")
    jobs = [job for path in paths for job in yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].values()]
    steps = [step["uses"] for job in jobs for step in job["steps"] if "uses" in step]
    assert {step.partition("/")[0] for step in steps} == ACTIONS.keys()
