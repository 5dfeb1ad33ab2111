"""Drives the built `weft` as a person and as a script would, on tiny models with random weights.

apps_test.py BIN_DIR [GROUP | unittest arguments]. A group is a class; the tests of Shared need the models of
$WEFT_SHARED. Exit code 77: all tests were skipped.
"""
import sys
import time
import unittest

from test_chat import InteractiveChat, LineEditor, OnATerminal, OneQuestion, PipedChat, Thinking
from test_convert import Convert
from test_cost import Cost
from test_errors import Errors
from test_examples import Examples
from test_geometry import Geometry
from test_rank import Rank
from test_heads import Heads
from test_images import Images
from test_listen import Listen
from test_json import Json
from test_lens import Lens
from test_lora import Lora
from test_models import Models, RealModels
from test_pull import Pull
from test_readme import Readme
from test_sentences import Rerank, Sentences, ServeRerank, ServeSentences
from test_serve import Serve
from test_serve_agents import ServeAgents
from test_serve_bodies import ServeBodies
from test_serve_choices import ServeChoices, ServeSharedPrompts
from test_serve_connections import ServeConnections
from test_serve_embeddings import ServeEmbeddings
from test_serve_ends import ServeEnds
from test_serve_framing import ServeFraming
from test_serve_fuzz import ServeFuzz
from test_serve_haproxy import ServeHaproxy
from test_serve_limits import ServeLimits
from test_serve_logprobs import ServeLogprobs
from test_serve_operator import ServeOperator
from test_serve_models import ServeModels
from test_serve_proxies import ServeProxies
from test_serve_reasoning import ServeMessages, ServeReasoning
from test_serve_responses import ServeResponses
from test_serve_transcriptions import ServeTranscriptions
from test_serve_slots import ServeSlots
from test_serve_tools import ServeTools
from test_sessions import Sessions
from test_shared import Shared
from test_speculation import Speculation
from test_text import Text
from test_vocab import Vocab


class TimedResult(unittest.TextTestResult):
    """Tells the seconds of each test."""

    def startTest(self, test):
        super().startTest(test)
        self.began = time.monotonic()

    def stopTest(self, test):
        self.stream.writeln(f"    {time.monotonic() - self.began:.1f} s")
        super().stopTest(test)


if __name__ == "__main__":
    # support.py takes BIN_DIR.
    runner = unittest.TextTestRunner(verbosity=2, resultclass=TimedResult)
    result = unittest.main(argv=[sys.argv[0], *sys.argv[2:]], exit=False, testRunner=runner).result
    sys.exit(1 if not result.wasSuccessful() else 77 if result.testsRun == len(result.skipped) else 0)
