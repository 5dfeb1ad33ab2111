package weft.demo;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertNotEquals;
import static org.junit.Assert.assertNull;
import static org.junit.Assert.assertTrue;
import static org.robolectric.Shadows.shadowOf;

import android.app.Activity;
import android.content.ClipboardManager;
import android.content.Intent;
import android.database.DataSetObserver;
import android.os.Bundle;
import android.widget.ListView;
import android.widget.TextView;
import java.io.File;
import java.io.FileOutputStream;
import java.util.List;
import java.util.TreeSet;
import org.junit.Test;
import org.robolectric.RuntimeEnvironment;

/** Models, questions and answers. */
public class ChatTest extends AppTest {
  @Test
  public void chats() throws Exception {
    until(() -> isShown(R.id.empty));
    assertTrue(text(R.id.empty_text), text(R.id.empty_text).startsWith("Choose a language model: a GGUF file on this phone."));
    assertFalse(view(R.id.send).isEnabled());
    load();
    assertFalse(isShown(R.id.status));
    sendInStep(TIMER);
    assertEquals("", text(R.id.draft));
    TreeSet<String> seen = new TreeSet<>();
    until(
        () -> {
          if (Chat.instance.generates()) seen.add(newest());
          return ready();
        });
    assertEquals(List.of("user: " + TIMER, "assistant: " + TIMER_SET), lines());
    assertFalse(isShown(R.id.empty));
    assertTrue("the text came in " + seen.size() + " parts", seen.size() > 3);
    for (String part : seen) assertTrue(part, TIMER_SET.startsWith(part));
    String details = Dialogs.details(Chat.instance);
    assertTrue(
        details,
        details.matches(
            "(?s)pocket\\.gguf\\n.*million parameters\\n\\nDevice: .+\\nDriver: .+\\nHead: full\\nPolicy: polite\\n\\n.*"
                + "Context: \\d+ tokens\\nPrompt tokens computed: \\d+\\nFirst token: after .* s\\nSpeed: .* tokens/s\\nHead: 8192 rows/token"));
    ask("what is 2 + 3?");
    assertEquals(4, lines().size());
  }

  @Test
  public void stops() throws Exception {
    load();
    ask(STORY);
    String whole = last();
    menu(R.id.fresh);
    assertEquals(List.of(), lines());
    sendInStep(STORY);
    untilItTells();
    view(R.id.send).performClick();
    until(this::ready);
    String part = last();
    assertTrue(part + "\n" + whole, part.length() < whole.length() && whole.startsWith(part));
    sendInStep(STORY);
    untilItTells();
    menu(R.id.fresh); // while it answers
    until(() -> ready() && lines().isEmpty());
    ask(TIMER);
    assertEquals(List.of("user: " + TIMER, "assistant: " + TIMER_SET), lines());
  }

  @Test
  public void aTokenChangesOneRow() throws Exception {
    load();
    ask(TIMER);
    ListView list = view(R.id.lines);
    int[] changes = {0, 0};
    list.getAdapter()
        .registerDataSetObserver(
            new DataSetObserver() {
              @Override
              public void onChanged() {
                ++changes[0];
              }
            });
    sendInStep(STORY);
    until(
        () -> {
          ++changes[1];
          return !Chat.instance.generates();
        });
    assertTrue("only " + changes[1] + " steps", changes[1] > 20);
    assertEquals("the message, the empty answer", 1, changes[0]);
    TextView shown = list.getChildAt(3 - list.getFirstVisiblePosition()).findViewById(R.id.text);
    assertEquals(newest(), shown.getText().toString());
  }

  @Test
  public void copiesAsksAgainAndEdits() throws Exception {
    load();
    ask(TIMER);
    ask("what is 2 + 3?");
    take(1, R.id.copy);
    ClipboardManager clipboard = controller.get().getSystemService(ClipboardManager.class);
    assertEquals(TIMER_SET, clipboard.getPrimaryClip().getItemAt(0).getText().toString());
    long before = computed();
    take(3, R.id.again);
    until(this::ready);
    assertEquals(4, lines().size());
    assertEquals("user: what is 2 + 3?", lines().get(2));
    assertNotEquals("assistant: \u2026", last());
    assertTrue("it read " + (computed() - before) + " tokens again", computed() - before < 20);
    before = computed();
    take(2, R.id.edit);
    assertEquals("what is 2 + 3?", text(R.id.draft));
    assertEquals(List.of("user: " + TIMER, "assistant: " + TIMER_SET), lines());
    ask("what is 3 + 4?");
    assertEquals("user: what is 3 + 4?", lines().get(2));
    assertTrue("it read " + (computed() - before) + " tokens again", computed() - before < 30);
  }

  @Test
  public void keepsTheAnswerIfAnotherFails() throws Exception {
    load();
    ask(TIMER);
    Chat.instance.engine.model.close(); // answers fail from now on, as when the device is lost for good
    take(1, R.id.again);
    untilIdle();
    assertFalse(text(R.id.status), text(R.id.status).isEmpty());
    assertEquals(List.of("user: " + TIMER, "assistant: " + TIMER_SET), lines());
    startAgain();
    until(this::ready);
    assertEquals(List.of("user: " + TIMER, "assistant: " + TIMER_SET), lines());
  }

  @Test
  public void rotates() throws Exception {
    load();
    sendInStep(STORY);
    untilItTells();
    String before = last();
    type("not sent yet");
    ChatActivity old = controller.get();
    RuntimeEnvironment.setQualifiers("+land");
    controller.recreate();
    assertTrue(old != controller.get() && old.isDestroyed());
    assertEquals("Stop", words(R.id.send)); // it goes on
    assertTrue(last().startsWith(before));
    until(this::ready);
    assertTrue(last().length() > before.length());
    assertEquals("not sent yet", text(R.id.draft));
    ask(TIMER);
    assertEquals("assistant: " + TIMER_SET, last());
  }

  @Test
  public void survivesTheEndOfTheProcess() throws Exception {
    load();
    setHead("Skip words that cannot be next");
    ask(STORY);
    ask(TIMER);
    long before = context();
    List<String> lines = lines();
    type("not sent yet");
    Bundle saved = new Bundle();
    controller.pause().stop().saveInstanceState(saved);
    endProcess();

    startProcess(saved);
    until(this::ready);
    assertEquals(lines, lines());
    assertEquals("not sent yet", text(R.id.draft));
    assertEquals("certified", Chat.instance.head());
    ask("what is 2 + 3?");
    assertEquals(lines, lines().subList(0, 4));
    // Only the new message is computed.
    assertTrue(computed() + " of " + before, computed() < before / 2);
  }

  @Test
  public void survivesItInTheMidstOfAnAnswer() throws Exception {
    load();
    ask(TIMER);
    sendInStep(STORY);
    untilItTells();
    startAgain(); // nobody has saved what was computed, nor the part of the answer
    until(this::ready);
    assertEquals(
        List.of("user: " + TIMER, "assistant: " + TIMER_SET, "user: " + STORY, "assistant: \u2026"), lines());
    ask(TIMER);
    assertEquals("assistant: " + TIMER_SET, last());
  }

  @Test
  public void changesSettings() throws Exception {
    load();
    ask(TIMER);
    long first = computed();
    setHead("Skip words that cannot be next");
    ask(TIMER);
    long second = computed() - first;
    assertEquals("assistant: " + TIMER_SET, last());
    assertFalse(Dialogs.details(Chat.instance).contains(" 8192 rows"));
    setPolite(false);
    ask(TIMER);
    assertEquals("assistant: " + TIMER_SET, last());
    assertFalse(Chat.instance.engine.polite);
    assertEquals(second, computed()); // the new session has computed only the new message
    startAgain();
    until(this::ready);
    assertFalse(Chat.instance.polite());
    assertEquals("certified", Chat.instance.head());
    assertEquals(6, lines().size());
  }

  @Test
  public void settingsNeedNeitherModelNorQuestion() throws Exception {
    untilIdle();
    setPolite(false);
    untilIdle();
    assertEquals("", text(R.id.status));
    load();
    assertFalse(Chat.instance.engine.polite);
    setPolite(true);
    untilIdle();
    assertEquals("", text(R.id.status));
    ask(TIMER);
    assertEquals("assistant: " + TIMER_SET, last());
    assertTrue(Chat.instance.engine.polite);
  }

  @Test
  public void cancelsLoading() throws Exception {
    untilIdle();
    inStep();
    pick(System.getProperty("weft.model"));
    until(() -> isShown(R.id.progress) && Chat.instance.phase() == Chat.Phase.LOADING && Chat.instance.progress() > 0);
    assertTrue(text(R.id.status), text(R.id.status).matches("Loading pocket\\.gguf: \\d+ %"));
    assertEquals("Cancel loading", words(R.id.send));
    view(R.id.send).performClick();
    untilIdle();
    assertEquals("Loading was cancelled.", text(R.id.status));
    assertFalse(isShown(R.id.progress));
    assertNull(Chat.instance.engine.model);
    assertEquals("Load the model", words(R.id.send));
    view(R.id.send).performClick();
    until(this::ready);
    assertFalse(isShown(R.id.status));
    ask(TIMER);
    assertEquals("assistant: " + TIMER_SET, last());
  }

  @Test
  public void saysWhyAModelCannotBeLoaded() throws Exception {
    load();
    ask(TIMER);
    List<String> lines = lines();
    File nothing = new File(System.getProperty("weft.screens"), "nothing.gguf");
    try (FileOutputStream out = new FileOutputStream(nothing)) {
      out.write(new byte[100]);
    }
    pick(nothing.getPath());
    until(() -> text(R.id.status).contains("GGUF") && text(R.id.status).endsWith("Choose another file, or download this one again."));
    assertEquals("Load the model", words(R.id.send));
    assertTrue(nothing.delete());
    pick(nothing.getPath());
    until(() -> text(R.id.status).startsWith("The file cannot be opened. It may have been moved or deleted"));
    assertEquals(lines, lines());
    load();
    ask(TIMER); // the conversation goes on
    assertEquals("assistant: " + TIMER_SET, last());
    assertEquals(4, lines().size());
  }

  @Test
  public void anAbandonedPickChangesNothing() throws Exception {
    untilIdle();
    menu(R.id.choose);
    Intent asked = shadowOf(controller.get()).getNextStartedActivityForResult().intent;
    shadowOf(controller.get()).receiveResult(asked, Activity.RESULT_CANCELED, null);
    assertFalse(view(R.id.send).isEnabled());
    assertNull(new Store(controller.get().getFilesDir()).read().document);
  }
}
