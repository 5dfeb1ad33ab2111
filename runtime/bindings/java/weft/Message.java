package weft;

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
}
