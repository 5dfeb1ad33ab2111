import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import weft.*;

/** How a generation ends: exceptions, cancel, close, from any thread. */
final class EndTests extends Fixture {
  void testExceptionsOfListeners() {
    try (Session session = session()) {
      for (int after = 1; after < 4; ++after) {
        int wanted = after;
        List<Integer> ids = new ArrayList<>();
        // The stop string " set a" holds " set" back until the end: after the exception the listener must not get it.
        Error error = thrown(Error.class, () -> session.generate(ASK, greedy().stops(List.of(" set a")), (id, text) -> {
          ids.add(id);
          if (ids.size() == wanted) throw new Error("mine");
          return true;
        }));
        same("mine", error.getMessage());
        same(wanted, ids.size());
        same(TIMER, timer(session));
      }
      IllegalStateException changed = thrown(IllegalStateException.class,
          () -> session.generate(ASK, greedy(), (id, text) -> session.generate(ASK, greedy(), null).ids().length > 0));
      check(changed.getMessage().contains("generates"));
      thrown(IllegalStateException.class, () -> session.generate(ASK, greedy(), (id, text) -> {
        session.reset();
        return true;
      }));
      List<String> heard = new ArrayList<>();
      same(StopReason.CALLER, session.generate(ASK, greedy(), (id, text) -> heard.add(text) && heard.size() < 3).stop());
      same(3, heard.size());
      same(TIMER, String.join("", heard) + session.proceed(greedy(), null).text());
    }
  }

  void testCancel() throws Exception {
    try (Session session = session()) {
      session.cancel(); // does nothing
      same(TIMER, timer(session));
      for (int i = 0; i < 40; ++i) { // up to the very end of a generation, and not into the next
        java.util.concurrent.atomic.AtomicBoolean go = new java.util.concurrent.atomic.AtomicBoolean(true);
        Thread thread = new Thread(() -> {
          while (go.get()) session.cancel();
        });
        thread.start();
        session.generate(ASK, greedy().maxTokens(1), null);
        go.set(false);
        thread.join();
        same(StopReason.LENGTH, session.generate(ASK, greedy().maxTokens(1), null).stop());
      }
      for (int delay = 0; delay < 20; ++delay) {
        int milliseconds = delay;
        AtomicReference<Thread> canceller = new AtomicReference<>();
        Thread thread = new Thread(() -> {
          try {
            Thread.sleep(milliseconds);
          } catch (InterruptedException never) {
            throw new AssertionError(never);
          }
          session.cancel();
        });
        thread.start();
        Generation generation = session.generate(HELLO, greedy().ignoreStopTokens(true), null);
        thread.join();
        check(generation.stop() == StopReason.CALLER || generation.stop() == StopReason.CONTEXT, generation.stop());
        same(TIMER, timer(session)); // what came too late does not end this one
      }
    }
  }

  void testCancelInThePrompt() throws Exception {
    int[] prompt = new int[480];
    Arrays.fill(prompt, 1000);
    int unfinished = 0;
    try (Session session = session()) {
      for (int delay = 0; delay < 40 && unfinished == 0; ++delay) {
        int milliseconds = delay * 2;
        session.reset();
        Thread thread = new Thread(() -> {
          try {
            Thread.sleep(milliseconds);
          } catch (InterruptedException never) {
            throw new AssertionError(never);
          }
          session.cancel();
        });
        thread.start();
        Generation generation = session.generate(prompt, greedy().maxTokens(1), null);
        thread.join();
        same(session.ids().length - prompt.length, generation.ids().length);
        if (session.ids().length == prompt.length) {
          same(StopReason.CALLER, generation.stop());
          ++unfinished;
        }
      }
      check(unfinished == 1, "no prompt was cancelled");
      same(TIMER, timer(session));
    }
  }

  void testCloseWhileGenerating() throws Exception {
    for (int delay = 0; delay < 10; ++delay) {
      Session session = session();
      CountDownLatch begun = new CountDownLatch(1);
      AtomicReference<Object> result = new AtomicReference<>();
      Thread thread = new Thread(() -> {
        try {
          result.set(session.generate(HELLO, greedy().ignoreStopTokens(true), (id, text) -> {
            begun.countDown();
            return true;
          }).stop());
        } catch (Throwable error) {
          result.set(error);
        }
      });
      thread.start();
      if (delay % 2 == 0) begun.await();
      else Thread.sleep(delay);
      Thread other = new Thread(session::close);
      other.start();
      session.close();
      other.join();
      thread.join();
      Object got = result.get();
      check(got == StopReason.CALLER || got == StopReason.CONTEXT || got instanceof IllegalStateException, got);
      thrown(IllegalStateException.class, session::ids);
      thrown(IllegalStateException.class, () -> session.generate(HELLO, greedy(), null));
      session.close();
    }
    Session session = session();
    List<Integer> ids = new ArrayList<>();
    same(StopReason.CALLER, session.generate(ASK, greedy(), (id, text) -> {
      ids.add(id);
      session.close();
      session.close();
      return true;
    }).stop());
    same(1, ids.size());
    thrown(IllegalStateException.class, session::stats);
  }

  /** A listener that waits for the thread that closes. */
  void testCloseEndsAWait() throws Exception {
    Session session = session();
    CountDownLatch begun = new CountDownLatch(1);
    CountDownLatch go = new CountDownLatch(1);
    AtomicReference<Object> result = new AtomicReference<>();
    Thread thread = new Thread(() -> result.set(session.generate(ASK, greedy(), new TokenListener() {
      @Override
      public boolean onToken(int id, String text) {
        begun.countDown();
        try {
          go.await();
        } catch (InterruptedException never) {
          throw new AssertionError(never);
        }
        return true;
      }

      @Override
      public void onCancel() {
        go.countDown();
      }
    }).stop()));
    thread.start();
    begun.await();
    session.close();
    thread.join();
    same(StopReason.CALLER, result.get());
  }

  void testCloseModel() {
    Model closed = Weft.load(null, new ModelOptions());
    Session idle = closed.session(new SessionOptions());
    Session busy = closed.session(new SessionOptions());
    same(StopReason.CALLER, busy.generate(ASK, greedy(), (id, text) -> {
      closed.close();
      thrown(IllegalStateException.class, () -> closed.tokenize("a"));
      same(busy.ids().length, busy.stats().contextUsed()); // it is freed when it ends
      return true;
    }).stop());
    thrown(IllegalStateException.class, idle::ids);
    thrown(IllegalStateException.class, busy::ids);
    thrown(IllegalStateException.class, () -> closed.session(new SessionOptions()));
    thrown(IllegalStateException.class, closed::info);
    idle.close();
    closed.close();
  }

  void testThreads() throws Exception {
    AtomicInteger right = new AtomicInteger();
    List<Thread> threads = new ArrayList<>();
    for (int i = 0; i < 4; ++i) {
      Thread thread = new Thread(() -> {
        try (Session session = session()) {
          for (int turn = 0; turn < 3; ++turn) {
            session.reset();
            if (timer(session).equals(TIMER)) right.incrementAndGet();
          }
        }
      });
      thread.start();
      threads.add(thread);
    }
    for (Thread thread : threads) thread.join();
    same(12, right.get());
  }
}
