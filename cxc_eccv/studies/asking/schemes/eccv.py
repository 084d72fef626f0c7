"""ECCV Caption's scheme: four answers, and reasons for the two in between."""

from cxc_eccv.studies.asking.schemes.scheme import Answer, Details, Scheme

SCHEME = Scheme(
    name="eccv",
    title="Does the sentence describe the image?",
    question="Is the image correctly described by the sentence?",
    instructions=(
        "Look at the image first, then read the sentence. Judge what the sentence says, not what it leaves out.",
        "Where you choose “Partially YES” or “Mostly NO”, say why.",
    ),
    answers=(
        Answer("yes", "100% YES", 1.0),
        Answer("partially_yes", "Partially YES, but", 0.5, asks=True),
        Answer("mostly_no", "Mostly NO, because", 0.0, asks=True),
        Answer("no", "100% NO", 0.0),
    ),
    details=(
        Details(
            "shortcomings",
            "What falls short?",
            {
                "not_in_image": "the description describes concepts that do not appear in the image",
                "not_in_caption": "the description does not describe the main concepts in the image",
                "wrong_description": "the description describes the main concepts in a wrong way",
                "grammar": "the description is grammatically incorrect",
            },
        ),
        Details(
            "errors",
            "What is wrong about the main concepts?",
            {
                "quantity": "quantity",
                "color": "colour",
                "species": "species",
                "gender": "gender",
                "age": "age",
                "action": "action",
                "emotion": "emotion",
                "location": "location",
                "orientation": "orientation",
                "others": "something else",
            },
            after="wrong_description",
        ),
    ),
    citation="Chun et al., ECCV 2022, arXiv:2204.03359, appendix B.1",
)
