package weft.demo;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertNull;
import static org.robolectric.Shadows.shadowOf;

import android.Manifest;
import android.content.pm.PackageManager;
import android.media.AudioRecord;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.Test;
import org.robolectric.RuntimeEnvironment;
import org.robolectric.shadows.ShadowAudioRecord;

/** The message box that is filled by speech. */
public class SpeechTest extends AppTest {
  /** The microphone gives these samples at once, then waits. It fails at an empty piece. */
  private static final class Sound implements ShadowAudioRecord.AudioRecordSource {
    final BlockingQueue<short[]> pieces = new LinkedBlockingQueue<>();

    @Override
    public int readInShortArray(short[] data, int offset, int size, boolean blocks) {
      try {
        short[] piece = pieces.poll(20, TimeUnit.MILLISECONDS);
        if (piece == null) return 0;
        if (piece.length == 0) return AudioRecord.ERROR_DEAD_OBJECT;
        System.arraycopy(piece, 0, data, offset, piece.length);
        return piece.length;
      } catch (InterruptedException error) {
        throw new AssertionError(error);
      }
    }

    void whistle() {
      for (int i = 0; i < 10; ++i) {
        short[] piece = new short[1600];
        for (int j = 0; j < piece.length; ++j) piece[j] = (short) (8000 * Math.sin(1e-6 * Math.pow(1600 * i + j, 2)));
        pieces.add(piece);
      }
    }
  }

  private Sound microphone() {
    Sound sound = new Sound();
    ShadowAudioRecord.setSource(sound);
    return sound;
  }

  private void permit() {
    shadowOf(RuntimeEnvironment.getApplication()).grantPermissions(Manifest.permission.RECORD_AUDIO);
  }

  private void untilStatus(String begin) throws InterruptedException {
    until(() -> text(R.id.status).startsWith(begin));
  }

  private void loadSpeech() throws InterruptedException {
    pick(R.id.choose_speech, System.getProperty("weft.speech"));
    untilStatus("ggml-speech.bin can write down what you say");
  }

  private void speak(String from, String to) throws InterruptedException {
    assertEquals(from, words(R.id.speak));
    view(R.id.speak).performClick();
    until(() -> words(R.id.speak).equals(to));
  }

  /** Records a second. */
  private void record(Sound sound) throws InterruptedException {
    speak("Speak", "Done");
    untilStatus("Recording, for at most 30 seconds.");
    sound.whistle();
    until(sound.pieces::isEmpty);
  }

  @Test
  public void writesDownSpeech() throws Exception {
    Sound sound = microphone();
    untilIdle();
    view(R.id.speak).performClick();
    untilStatus("Choose a speech model first, in the menu: a Whisper file, ggml-*.bin, on this phone.");
    loadSpeech();
    assertNull(shadowOf(controller.get()).getLastRequestedPermission());
    view(R.id.speak).performClick();
    String[] asked = shadowOf(controller.get()).getLastRequestedPermission().requestedPermissions;
    assertEquals(List.of(Manifest.permission.RECORD_AUDIO), List.of(asked));
    controller.get().onRequestPermissionsResult(ChatActivity.RECORD, asked, new int[] {PackageManager.PERMISSION_DENIED});
    untilStatus("The app may not use the microphone. The system's settings of this app can allow it.");
    assertEquals("Speak", words(R.id.speak));
    permit();
    controller.get().onRequestPermissionsResult(ChatActivity.RECORD, asked, new int[] {PackageManager.PERMISSION_GRANTED});
    until(() -> words(R.id.speak).equals("Done"));
    sound.whistle();
    until(sound.pieces::isEmpty);
    picture("android-speak");
    speak("Done", "Speak");
    String heard = text(R.id.draft);
    assertFalse(text(R.id.status), heard.isEmpty());

    // The same after a rotation within it, and in a new process, after what was written.
    type("well,");
    record(sound);
    controller.recreate();
    speak("Done", "Speak");
    assertEquals("well, " + heard, text(R.id.draft));
    startAgain();
    untilIdle();
    type("");
    record(sound);
    speak("Done", "Speak");
    assertEquals(heard, text(R.id.draft));
  }

  @Test
  public void saysWhyNothingIsWrittenDown() throws Exception {
    permit();
    Sound sound = microphone();
    loadSpeech();
    record(sound);
    speak("Done", "Cancel");
    speak("Cancel", "Speak");
    untilStatus("Cancelled: nothing was written down.");
    record(sound);
    controller.pause().stop(); // the app leaves the screen
    controller.restart().resume();
    until(() -> words(R.id.speak).equals("Speak"));
    untilStatus("Cancelled: nothing was written down.");
    speak("Speak", "Done");
    sound.pieces.add(new short[0]); // the microphone is gone: the recording ends
    untilStatus("No speech was heard.");
    until(() -> words(R.id.speak).equals("Speak"));
    pick(R.id.choose_speech, System.getProperty("weft.model"));
    until(() -> text(R.id.status).contains("hears nothing"));
    record(sound);
    speak("Done", "Speak");
    until(() -> text(R.id.status).contains("hears nothing"));
    assertEquals("", text(R.id.draft));
  }
}
