package weft;

import java.util.List;
import java.util.Locale;
import java.util.Objects;

/** One message of a conversation. */
public final class Message {
  final String role;
  final String content;

  /** role: "system", "user" or "assistant". */
  public Message(String role, String content) {
    this.role = Objects.requireNonNull(role);
    this.content = Objects.requireNonNull(content);
  }

  public static Message system(String content) {
    return new Message("system", content);
  }

  public static Message user(String content) {
    return new Message("user", content);
  }

  public static Message assistant(String content) {
    return new Message("assistant", content);
  }

  public String role() {
    return role;
  }

  public String content() {
    return content;
  }

  /** A conversation as weft_conversation_set takes it. */
  static String json(List<Message> messages, Boolean think) {
    StringBuilder json = new StringBuilder("{\"think\":").append(think).append(",\"messages\":[");
    String before = "";
    for (Message message : messages) {
      json.append(before).append("{\"role\":");
      quote(json, message.role);
      json.append(",\"content\":");
      quote(json, message.content);
      json.append('}');
      before = ",";
    }
    return json.append("]}").toString();
  }

  private static void quote(StringBuilder json, String text) {
    json.append('"');
    for (int i = 0; i < text.length(); ++i) {
      char c = text.charAt(i);
      if (c == '"' || c == '\\') json.append('\\').append(c);
      else if (c < ' ') json.append(String.format(Locale.ROOT, "\\u%04x", (int) c));
      else json.append(c);
    }
    json.append('"');
  }
}
