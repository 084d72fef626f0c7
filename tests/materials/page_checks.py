"""What every page that the package writes must hold in a browser."""

SCREEN_WIDTHS = (320, 390, 768, 1280)
SCREEN_HEIGHT = 900
LEAST_CONTRAST = 4.5
"""WCAG AA."""
LEAST_FONT_SIZE = 11

SCROLLS_BY_ITSELF = ".scroll, nav, .hidden, .long, .skip"
"""What may be wider than the screen: tables that scroll by themselves, and texts for screen readers alone."""

FIND_OVERFLOWING = """(ignored) => {
  const width = document.documentElement.clientWidth;
  const outside = [...document.querySelectorAll('main *, header *, footer *')]
    .filter((element) => !element.closest(ignored) && element.getBoundingClientRect().right > width + 1);
  const scroll = document.documentElement.scrollWidth - width;
  return [...scroll > 0 ? [scroll] : [], ...outside.map((element) => element.outerHTML.slice(0, 120))];
}"""

MEASURE_TEXTS = """() => {
  const parse = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const isSolid = (colour) => parse(colour).length === 3 || parse(colour)[3] === 1;
  const luminance = (colour) => {
    const [r, g, b] = colour.map((part) => part / 255)
      .map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const findGround = (element) => {
    const drawn = element.closest('svg') && element.parentElement.querySelector('rect');
    if (drawn) return parse(getComputedStyle(drawn).fill);
    while (element && !isSolid(getComputedStyle(element).backgroundColor)) element = element.parentElement;
    return parse(getComputedStyle(element || document.documentElement).backgroundColor);
  };
  const texts = [];
  for (const element of document.body.querySelectorAll('*')) {
    const hasText = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (!hasText || element.closest('title, desc, .hidden, .long, .short, .skip')) continue;
    if (!element.checkVisibility() || element.disabled) continue;
    const style = getComputedStyle(element), ground = findGround(element);
    let opacity = 1;
    for (let up = element; up; up = up.parentElement) opacity *= getComputedStyle(up).opacity;
    const ink = parse(element.closest('svg') ? style.fill : style.color);
    const colour = ink.slice(0, 3).map((part, place) => opacity * part + (1 - opacity) * ground[place]);
    const [high, low] = [luminance(colour), luminance(ground)].sort((a, b) => b - a);
    const contrast = (high + 0.05) / (low + 0.05);
    texts.push([contrast, parseFloat(style.fontSize), element.outerHTML.slice(0, 100)]);
  }
  return texts;
}"""

FIND_SILENT_CHARTS = """() => {
  const name = (chart) => (chart.getAttribute('aria-labelledby') || '').split(' ')
    .map((id) => document.getElementById(id)?.textContent || '').join('') || chart.getAttribute('aria-label') || '';
  const speaks = (chart) => chart.ariaHidden === 'true'
    ? chart.matches('.scale') || /\\d/.test(chart.closest('tr')?.innerText || '')
    : chart.getAttribute('role') === 'img' && name(chart).trim();
  const charts = [...document.querySelectorAll('svg')].filter((chart) => !speaks(chart));
  const images = [...document.images].filter((image) => !image.hasAttribute('alt'));
  return [...charts, ...images, ...document.querySelectorAll('canvas')].map((one) => one.outerHTML.slice(0, 120));
}"""

OPEN_FOLDS = "for (const folded of document.querySelectorAll('details')) folded.open = true"


def list_requests(page):
    """Addresses that a page asked for, other than its own."""
    addresses = [request.url for request in page.requests()]
    return [address for address in addresses if not address.startswith("data:") and address != page.url]


def list_complaints(page):
    """What a page wrote to the console, and errors that its scripts did not catch."""
    return [message.text for message in page.console_messages()] + [str(error) for error in page.page_errors()]


def resize(page, width):
    page.set_viewport_size({"width": width, "height": SCREEN_HEIGHT})


def assert_fits(page):
    """Nothing is wider than the screen but what scrolls by itself."""
    page.evaluate(OPEN_FOLDS)
    for width in SCREEN_WIDTHS:
        resize(page, width)
        overflowing = page.evaluate(FIND_OVERFLOWING, SCROLLS_BY_ITSELF)
        assert not overflowing, f"wider than {width} pixels: {overflowing}"


def assert_legible(page, least_texts):
    """The texts, at least so many, stand out from their ground and are not too small."""
    page.evaluate(OPEN_FOLDS)
    for width in (390, 1280):
        resize(page, width)
        texts = page.evaluate(MEASURE_TEXTS)
        poor = [text for text in texts if text[0] < LEAST_CONTRAST or text[1] < LEAST_FONT_SIZE]
        assert not poor, f"contrast and font size at {width} pixels: {poor}"
        assert len(texts) >= least_texts, f"{len(texts)} texts at {width} pixels"


def assert_quiet(page):
    """The page asks for nothing and complains of nothing."""
    requests = list_requests(page)
    complaints = list_complaints(page)
    assert not requests, requests
    assert not complaints, complaints


def assert_sound(page, least_texts):
    """Everything that holds for any page, in light and in dark."""
    assert_fits(page)
    silent = page.evaluate(FIND_SILENT_CHARTS)
    assert not silent, f"without a text alternative: {silent}"
    missing = page.evaluate("[...document.images].filter((image) => !image.naturalWidth).length")
    assert not missing, f"{missing} images do not load"
    grounds = []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert_legible(page, least_texts)
        grounds.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert grounds[0] != grounds[1], "dark is as light"
    assert_quiet(page)
