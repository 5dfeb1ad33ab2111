#include "canvas.h"

#include <cairo-pdf.h>
#include <cairo-svg.h>
#include <cairo.h>
#include <unistd.h>
#include <utf8proc.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "common.h"

namespace weft::cli {
namespace {

using Surface = std::unique_ptr<cairo_surface_t, decltype(&cairo_surface_destroy)>;

void set_font(cairo_t* context) {
  cairo_select_font_face(context, "sans-serif", CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_NORMAL);
  cairo_set_font_size(context, 14);
}

std::shared_ptr<cairo_t> context_on(cairo_surface_t* surface) {
  std::shared_ptr<cairo_t> context(cairo_create(surface), cairo_destroy);
  cairo_surface_destroy(surface);  // the context keeps it
  set_font(context.get());
  return context;
}

void set_colour(cairo_t* context, const Colour& colour) {
  cairo_set_source_rgb(context, colour[0] / 255.0, colour[1] / 255.0, colour[2] / 255.0);
}

cairo_status_t append(void* file, const unsigned char* data, unsigned int size) {
  return std::fwrite(data, 1, size, static_cast<std::FILE*>(file)) == size ? CAIRO_STATUS_SUCCESS
                                                                           : CAIRO_STATUS_WRITE_ERROR;
}

bool paint(cairo_surface_t* recorded, cairo_surface_t* onto) {
  const std::shared_ptr<cairo_t> context = context_on(cairo_surface_reference(onto));
  set_colour(context.get(), kWhite);
  cairo_paint(context.get());
  cairo_set_source_surface(context.get(), recorded, 0, 0);
  cairo_paint(context.get());
  return cairo_status(context.get()) == CAIRO_STATUS_SUCCESS;
}

}  // namespace

std::string drawable(const std::string& text, std::size_t longest) {
  std::string result;
  std::size_t characters = 0, kept = 0;  // kept: bytes that leave room for "..."
  for (std::size_t at = 0; at < text.size(); ++characters) {
    utf8proc_int32_t point = 0;
    const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data() + at);
    const auto length = utf8proc_iterate(bytes, static_cast<utf8proc_ssize_t>(text.size() - at), &point);
    if (characters == longest) return result.substr(0, kept) + "...";
    const bool shown = length > 0 && utf8proc_category(point) != UTF8PROC_CATEGORY_CC;
    result += shown ? text.substr(at, static_cast<std::size_t>(length)) : "?";
    at += length > 0 ? static_cast<std::size_t>(length) : 1;
    if (characters + 4 <= longest) kept = result.size();
  }
  return result;
}

int width_of(const std::string& text) {
  static const std::shared_ptr<cairo_t> context = context_on(cairo_image_surface_create(CAIRO_FORMAT_A8, 1, 1));
  cairo_text_extents_t extents;
  cairo_text_extents(context.get(), text.c_str(), &extents);
  return static_cast<int>(extents.x_advance + 0.5);
}

Canvas::Canvas(int width, int height) : width_(width), height_(height) {
  const cairo_rectangle_t all = {0, 0, static_cast<double>(width), static_cast<double>(height)};
  context_ = context_on(cairo_recording_surface_create(CAIRO_CONTENT_COLOR_ALPHA, &all));
}

void Canvas::fill(const Box& box, const Colour& colour) {
  set_colour(context_.get(), colour);
  cairo_rectangle(context_.get(), box.left, box.top, box.width, box.height);
  cairo_fill(context_.get());
}

void Canvas::dot(double x, double y, double radius, const Colour& colour) {
  set_colour(context_.get(), colour);
  cairo_new_sub_path(context_.get());
  cairo_arc(context_.get(), x, y, radius, 0, 6.2832);
  cairo_fill(context_.get());
}

void Canvas::line(double from_x, double from_y, double to_x, double to_y, const Colour& colour) {
  set_colour(context_.get(), colour);
  cairo_set_line_width(context_.get(), 2);
  cairo_move_to(context_.get(), from_x, from_y);
  cairo_line_to(context_.get(), to_x, to_y);
  cairo_stroke(context_.get());
}

void Canvas::text(int left, int top, const std::string& text, const Colour& colour) {
  set_colour(context_.get(), colour);
  cairo_move_to(context_.get(), left, top + 14);  // the base line
  cairo_show_text(context_.get(), text.c_str());
}

void Canvas::write(const std::string& path) const {
  const std::string beside = path + format(".%ld.tmp", static_cast<long>(getpid()));
  const auto fail = [&](int number) {
    std::remove(beside.c_str());
    throw api::Failure(WEFT_IO, std::string("the plot could not be written: ") + std::strerror(number), path);
  };
  errno = 0;
  std::FILE* file = std::fopen(beside.c_str(), "wb");
  if (!file) fail(errno);
  cairo_surface_t* recorded = cairo_get_target(context_.get());
  bool made = cairo_status(context_.get()) == CAIRO_STATUS_SUCCESS;
  if (path.ends_with(".png")) {
    const Surface image(cairo_image_surface_create(CAIRO_FORMAT_RGB24, width_, height_), cairo_surface_destroy);
    made = made && paint(recorded, image.get()) &&
           cairo_surface_write_to_png_stream(image.get(), append, file) == CAIRO_STATUS_SUCCESS;
  } else {
    const auto create =
        path.ends_with(".svg") ? cairo_svg_surface_create_for_stream : cairo_pdf_surface_create_for_stream;
    const Surface page(create(append, file, width_, height_), cairo_surface_destroy);
    made = made && paint(recorded, page.get());
    cairo_surface_finish(page.get());
    made = made && cairo_surface_status(page.get()) == CAIRO_STATUS_SUCCESS;
  }
  const bool whole = made && std::fflush(file) == 0 && std::ferror(file) == 0 && fsync(fileno(file)) == 0;
  const int number = errno != 0 ? errno : EIO;
  if (std::fclose(file) != 0 || !whole) fail(number);
  if (std::rename(beside.c_str(), path.c_str()) != 0) fail(errno);
}

void require_writable(const std::string& option, const std::string& path) {
  if (!path.ends_with(".png") && !path.ends_with(".svg") && !path.ends_with(".pdf"))
    throw UsageError(option, "\"" + path + "\" ends with none of .png, .svg and .pdf");
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored) && !std::filesystem::is_regular_file(path, ignored)) {
    throw UsageError(option, "\"" + path + "\" is there and is no file");
  }
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (access(folder.empty() ? "." : folder.c_str(), W_OK | X_OK) != 0) {
    throw UsageError(option, "\"" + path + "\" cannot be written: " + std::strerror(errno));
  }
}

}  // namespace weft::cli
