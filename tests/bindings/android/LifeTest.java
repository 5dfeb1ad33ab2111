package weft.demo;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertNotNull;
import static org.junit.Assert.assertNull;
import static org.junit.Assert.assertTrue;
import static org.robolectric.Shadows.shadowOf;

import android.app.Notification;
import android.content.ComponentCallbacks2;
import android.content.Intent;
import android.content.UriPermission;
import android.net.Uri;
import android.os.PowerManager;
import java.io.File;
import java.lang.reflect.Constructor;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.Permission;
import java.util.List;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.junit.Test;
import org.robolectric.Robolectric;
import org.robolectric.RuntimeEnvironment;
import org.robolectric.android.controller.ServiceController;
import weft.WeftException;

/** The app as a guest on a phone: in the background, in little memory, when it is warm. */
public class LifeTest extends AppTest {
  private File session() {
    return new File(controller.get().getFilesDir(), "chat.session");
  }

  @Test
  public void leavesBeforeTheFirstQuestion() throws Exception {
    load();
    leave();
    assertFalse(session().exists());
    comeBack();
    assertEquals("", text(R.id.status));
    ask(TIMER);
    assertEquals("assistant: " + TIMER_SET, last());
  }

  @Test
  public void savesOnlyWhatHasChanged() throws Exception {
    load();
    ask(TIMER);
    leave();
    assertEquals(1, Chat.instance.store.saves);
    long size = session().length();
    comeBack();
    leave();
    assertEquals(1, Chat.instance.store.saves);
    comeBack();
    ask(TIMER);
    leave();
    assertEquals(2, Chat.instance.store.saves);
    assertTrue(session().length() > size);
    assertEquals(2, controller.get().getFilesDir().list().length); // and no other file is left
  }

  @Test
  public void givesMemoryBackInTheBackground() throws Exception {
    load();
    ask(TIMER);
    controller.get().getApplication().onTrimMemory(ComponentCallbacks2.TRIM_MEMORY_BACKGROUND);
    untilIdle();
    assertNotNull("it is on the screen", Chat.instance.engine.model);
    leave();
    controller.get().getApplication().onTrimMemory(ComponentCallbacks2.TRIM_MEMORY_UI_HIDDEN);
    untilIdle();
    assertNotNull("nobody wants memory", Chat.instance.engine.model);
    controller.get().getApplication().onTrimMemory(ComponentCallbacks2.TRIM_MEMORY_BACKGROUND);
    untilIdle();
    assertNull(Chat.instance.engine.model);
    comeBack();
    ask(TIMER);
    assertEquals("assistant: " + TIMER_SET, last());
    assertTrue(computed() + " of " + context(), computed() < context() / 2); // the new session has computed only the new message
  }

  @Test
  public void keepsTheScreenOnWhileItAnswers() throws Exception {
    load();
    assertFalse(view(R.id.lines).getKeepScreenOn());
    sendInStep(STORY);
    untilItTells();
    assertTrue(view(R.id.lines).getKeepScreenOn());
    until(this::ready);
    assertFalse(view(R.id.lines).getKeepScreenOn());
  }

  @Test
  public void answersInTheBackground() throws Exception {
    load();
    sendInStep(STORY);
    untilItTells();
    Intent asked = shadowOf(RuntimeEnvironment.getApplication()).getNextStartedService();
    assertEquals(AnswerService.class.getName(), asked.getComponent().getClassName());
    ServiceController<AnswerService> service = Robolectric.buildService(AnswerService.class, asked).create().startCommand(0, 1);
    String before = newest();
    controller.pause().stop();
    until(() -> newest().length() > before.length() + 20);
    Notification told = shadowOf(service.get()).getLastForegroundNotification();
    assertEquals("Answering your question", told.extras.getString(Notification.EXTRA_TITLE));
    assertEquals("pocket.gguf", told.extras.getString(Notification.EXTRA_TEXT));
    assertEquals(1, told.actions.length);
    assertEquals("Stop", told.actions[0].title);
    assertFalse(session().exists());
    Intent stop = shadowOf(told.actions[0].actionIntent).getSavedIntent();
    service.withIntent(stop).startCommand(0, 2);
    until(() -> !Chat.instance.generates());
    untilIdle();
    assertTrue(shadowOf(service.get()).isStoppedBySelf());
    assertTrue("it is saved after the answer", session().exists());
    service.destroy();
    String part = newest();
    comeBack();
    assertEquals("assistant: " + part, last());
    ask(TIMER);
    assertEquals("assistant: " + TIMER_SET, last());
  }

  /** The system delivers the start when the answer is complete. */
  @Test
  public void aServiceThatIsLateStops() throws Exception {
    load();
    ask(TIMER);
    Intent asked = shadowOf(RuntimeEnvironment.getApplication()).getNextStartedService();
    ServiceController<AnswerService> service = Robolectric.buildService(AnswerService.class, asked).create().startCommand(0, 1);
    assertNotNull(shadowOf(service.get()).getLastForegroundNotification()); // else the system ends the app
    assertTrue(shadowOf(service.get()).isStoppedBySelf());
    service.destroy();
  }

  @Test
  public void slowsDownWhenThePhoneIsWarm() throws Exception {
    load();
    ask(TIMER);
    PowerManager power = RuntimeEnvironment.getApplication().getSystemService(PowerManager.class);
    shadowOf(power).setCurrentThermalStatus(PowerManager.THERMAL_STATUS_SEVERE);
    untilIdle();
    assertEquals(0.25f, Chat.instance.engine.share, 0);
    assertTrue(text(R.id.status), text(R.id.status).startsWith("The phone is warm"));
    ask(TIMER);
    assertEquals("assistant: " + TIMER_SET, last());
    setPolite(false);
    ask(TIMER);
    assertTrue("only a polite session slows down", Chat.instance.engine.polite);
    shadowOf(power).setCurrentThermalStatus(PowerManager.THERMAL_STATUS_NONE);
    untilIdle();
    assertEquals(1, Chat.instance.engine.share, 0);
    assertEquals("", text(R.id.status));
    ask(TIMER);
    assertFalse(Chat.instance.engine.polite);
  }

  private List<String> granted() {
    List<UriPermission> all = RuntimeEnvironment.getApplication().getContentResolver().getPersistedUriPermissions();
    return all.stream().map(UriPermission::getUri).map(Uri::getLastPathSegment).sorted().collect(Collectors.toList());
  }

  @Test
  public void givesBackTheRightToReadOtherModels() throws Exception {
    Path other = Path.of(System.getProperty("weft.screens"), "other.gguf");
    Files.createSymbolicLink(other, Path.of(System.getProperty("weft.model")));
    try {
      pick(other.toString());
      until(this::ready);
      assertEquals(List.of("other.gguf"), granted());
      pick(R.id.choose_speech, other.toString());
      untilIdle();
      load();
      assertEquals(List.of("other.gguf", "pocket.gguf"), granted()); // the speech model is still there
      pick(R.id.choose_speech, System.getProperty("weft.speech"));
      untilIdle();
      assertEquals(List.of("ggml-speech.bin", "pocket.gguf"), granted());
    } finally {
      Files.delete(other);
    }
  }

  @Test
  public void hintsAreForAPhone() throws Exception {
    Constructor<WeftException> made =
        WeftException.class.getDeclaredConstructor(byte[].class, byte[].class, byte[].class, byte[].class);
    made.setAccessible(true);
    byte[] code = "WEFT_NO_DEVICE".getBytes(StandardCharsets.UTF_8), place = "libvulkan.so.1".getBytes(StandardCharsets.UTF_8);
    byte[] sentence = "this machine has no Vulkan loader".getBytes(StandardCharsets.UTF_8);
    byte[] hint = "install libvulkan1 and your GPU's driver".getBytes(StandardCharsets.UTF_8);
    String said = Complaint.of(controller.get(), made.newInstance(code, sentence, place, hint));
    assertEquals(
        "this machine has no Vulkan loader\nThe phone's graphics chip or its driver cannot run language models with this app. "
            + "An update of the system may help.",
        said);
  }

  /** Notes the main thread's use of the app's files, and who loads the library. */
  private static final class Watch extends SecurityManager {
    final TreeSet<String> seen = new TreeSet<>();
    final Thread main = Thread.currentThread();
    final String folder = RuntimeEnvironment.getApplication().getDataDir().getParent();

    private void note(String what) {
      if (Thread.currentThread() != main) return;
      StackTraceElement[] stack = new Throwable().getStackTrace();
      for (StackTraceElement place : stack)
        if (place.getClassName().startsWith("weft.demo.") && !place.getClassName().contains("Test")) {
          seen.add(what + " by " + place);
          return;
        }
    }

    @Override
    public void checkPermission(Permission any) {}

    @Override
    public void checkPermission(Permission any, Object context) {}

    @Override
    public void checkRead(String file) {
      if (file.startsWith(folder)) note("reads " + file);
    }

    @Override
    public void checkWrite(String file) {
      note("writes " + file);
    }

    @Override
    public void checkDelete(String file) {
      note("deletes " + file);
    }

    @Override
    public void checkLink(String library) {
      note("loads " + library);
    }
  }

  @Test
  public void theMainThreadUsesNoDisk() throws Exception {
    endProcess();
    Watch watch = new Watch();
    System.setSecurityManager(watch);
    try {
      startProcess(null);
      load();
      setHead("Skip words");
      ask(TIMER);
      leave();
      controller.get().getApplication().onTrimMemory(ComponentCallbacks2.TRIM_MEMORY_BACKGROUND);
      comeBack();
      dialog(R.id.details).dismiss();
      menu(R.id.fresh);
      untilIdle();
      startAgain();
      until(this::ready);
    } finally {
      System.setSecurityManager(null);
    }
    assertEquals(new TreeSet<String>(), watch.seen);
  }
}
