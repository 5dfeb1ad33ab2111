package weft.demo;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertTrue;

import android.graphics.Insets;
import android.graphics.Typeface;
import android.graphics.drawable.AdaptiveIconDrawable;
import android.graphics.drawable.Drawable;
import android.text.Spanned;
import android.text.style.BulletSpan;
import android.text.style.StyleSpan;
import android.text.style.TypefaceSpan;
import android.view.View;
import android.view.WindowInsets;
import android.widget.ImageView;
import org.junit.Test;
import org.robolectric.RuntimeEnvironment;

/** Pictures of the app, and what they show. */
public class LooksTest extends AppTest {
  private static final int BAR = 48, NAVIGATION = 36; // pixels

  /** A phone's bars; Robolectric has none. */
  private void bars(int keyboard) {
    WindowInsets insets =
        new WindowInsets.Builder()
            .setInsets(WindowInsets.Type.statusBars(), Insets.of(0, BAR, 0, 0))
            .setInsets(WindowInsets.Type.navigationBars(), Insets.of(0, 0, 0, NAVIGATION))
            .setInsets(WindowInsets.Type.ime(), Insets.of(0, 0, 0, keyboard))
            .build();
    view(R.id.root).dispatchApplyWindowInsets(insets);
  }

  private void converse() throws Exception {
    load();
    ask(TIMER);
    ask("what is 2 + 3?");
  }

  private void turn(String qualifiers) {
    RuntimeEnvironment.setQualifiers(qualifiers);
    controller.recreate();
    bars(0);
  }

  @Test
  public void light() throws Exception {
    untilIdle();
    bars(0);
    picture("android-empty");
    converse();
    picture("android-light");
    picture("android-settings", dialog(R.id.settings).getWindow().getDecorView());
  }

  @Test
  public void dark() throws Exception {
    turn("+night");
    converse();
    sendInStep(STORY);
    untilItTells();
    picture("android-answering");
    until(this::ready);
    menu(R.id.fresh);
    ask(TIMER);
    ask("what is 2 + 3?");
    picture("android-dark");
  }

  @Test
  public void small() throws Exception {
    turn("w240dp-h320dp-hdpi");
    converse();
    picture("android-small");
    assertTrue(view(R.id.lines).getHeight() > 100);
  }

  @Test
  public void landscape() throws Exception {
    turn("w640dp-h360dp-land-xhdpi");
    converse();
    picture("android-land");
  }

  @Test
  public void keepsOutFromUnderTheBars() throws Exception {
    bars(0);
    View root = view(R.id.root);
    assertEquals(BAR, root.getPaddingTop());
    assertEquals(NAVIGATION, root.getPaddingBottom());
    bars(500);
    assertEquals("the keyboard", 500, root.getPaddingBottom());
  }

  @Test
  public void showsSimpleMarkdown() {
    Spanned shown =
        (Spanned) Markdown.of("# Tea\n- **hot** water\n2 * 3 * 4, set_timer, *now*\n```c\nint *a, *b;\n```\n`x`");
    assertEquals("Tea\nhot water\n2 * 3 * 4, set_timer, now\nint *a, *b;\nx", shown.toString());
    assertEquals("Tea", styled(shown, StyleSpan.class, 0));
    assertEquals("hot", styled(shown, StyleSpan.class, 1));
    assertEquals("now", styled(shown, StyleSpan.class, 2));
    assertEquals(Typeface.ITALIC, shown.getSpans(0, shown.length(), StyleSpan.class)[2].getStyle());
    assertEquals("hot water", styled(shown, BulletSpan.class, 0));
    assertEquals("int *a, *b;\n", styled(shown, TypefaceSpan.class, 0));
    assertEquals("x", styled(shown, TypefaceSpan.class, 1));
    assertEquals("```", "", Markdown.of("```").toString()); // as it comes
    assertEquals("**half", Markdown.of("**half").toString());
  }

  private static String styled(Spanned text, Class<?> style, int i) {
    Object span = text.getSpans(0, text.length(), style)[i];
    return text.subSequence(text.getSpanStart(span), text.getSpanEnd(span)).toString();
  }

  @Test
  public void hasAnAdaptiveIcon() throws Exception {
    Drawable icon = controller.get().getDrawable(R.mipmap.icon);
    assertTrue(icon instanceof AdaptiveIconDrawable);
    ImageView view = new ImageView(controller.get());
    view.setImageDrawable(icon);
    view.layout(0, 0, 192, 192);
    picture("android-icon", view);
  }
}
