package weft.demo;

import android.util.AtomicFile;
import java.io.File;
import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.json.JSONArray;
import org.json.JSONException;
import org.json.JSONObject;
import weft.Message;
import weft.Session;

/**
 * Two files in the application's private folder. chat.json holds what the user sees, and is written with every message.
 * chat.session holds the model's state after it, and may be missing or old: the next answer computes the rest.
 * The worker of {@link weft.demo.Chat} calls it.
 */
final class Store {
  /** Contents of chat.json. */
  static final class Chat {
    String document; // null: no model was chosen
    String name = "";
    String speech; // the Whisper model's document; null: none was chosen
    String speechName = "";
    String head = "full";
    boolean polite = true;
    boolean askedToNotify; // the user was asked whether the app may show notifications
    final List<Message> messages = new ArrayList<>();
  }

  private final AtomicFile chat;
  private final File session;
  int saves; // for tests

  Store(File folder) {
    chat = new AtomicFile(new File(folder, "chat.json"));
    session = new File(folder, "chat.session");
  }

  static byte[] toJson(Chat chat) {
    try {
      JSONArray messages = new JSONArray();
      for (Message message : chat.messages)
        messages.put(new JSONObject().put("role", message.role()).put("content", message.content()));
      return new JSONObject()
          .put("document", chat.document)
          .put("name", chat.name)
          .put("speech", chat.speech)
          .put("speechName", chat.speechName)
          .put("head", chat.head)
          .put("polite", chat.polite)
          .put("askedToNotify", chat.askedToNotify)
          .put("messages", messages)
          .toString()
          .getBytes(StandardCharsets.UTF_8);
    } catch (JSONException impossible) {
      throw new IllegalStateException(impossible); // there is no number in it
    }
  }

  void write(byte[] json) throws IOException {
    FileOutputStream out = chat.startWrite();
    try {
      out.write(json);
      chat.finishWrite(out);
    } catch (IOException error) {
      chat.failWrite(out);
      throw error;
    }
  }

  /** An empty chat if there is no file, or a file of something else. */
  Chat read() {
    Chat result = new Chat();
    try {
      JSONObject json = new JSONObject(new String(chat.readFully(), StandardCharsets.UTF_8));
      result.document = json.isNull("document") ? null : json.getString("document");
      result.name = json.getString("name");
      result.speech = json.isNull("speech") ? null : json.getString("speech");
      result.speechName = json.optString("speechName");
      result.head = json.getString("head");
      result.polite = json.getBoolean("polite");
      result.askedToNotify = json.optBoolean("askedToNotify");
      JSONArray messages = json.getJSONArray("messages");
      for (int i = 0; i < messages.length(); ++i) {
        JSONObject message = messages.getJSONObject(i);
        result.messages.add(new Message(message.getString("role"), message.getString("content")));
      }
      // The process ended while the model answered.
      if (result.messages.size() % 2 == 1) result.messages.add(Message.assistant(""));
      return result;
    } catch (IOException | JSONException error) {
      return new Chat();
    }
  }

  /** Writes part by part to a new file, which then takes the place of the old one. */
  void save(Session from) {
    from.save(session.getPath(), null);
    ++saves;
  }

  /** Does nothing if there is no file. */
  void restore(Session to) {
    if (session.exists()) to.restore(session.getPath());
  }

  void forget() {
    session.delete();
  }
}
