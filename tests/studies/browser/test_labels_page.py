"""The page about the quality of labels in Chromium."""

from page_checks import assert_sound

from cxc_eccv.studies.annotation.label_quality.appraisal import AppraisalRequest, appraise


def test_page_is_sound_in_a_browser(open_page, sample_library, make_run):
    runs = {f"model {seed}": make_run(sample_library, seed) for seed in range(3)}
    appraisal = appraise(sample_library, AppraisalRequest(split="test", runs=runs))
    assert_sound(open_page(appraisal.to_html()), 50)
