"""Texts and images to vectors."""

from cxc_eccv.encoding.towers.image_encoder import ImageEncoder, ImageInput, Inputs, Prepared, prepared_image, ready_for
from cxc_eccv.encoding.towers.pictures import open_picture, picture_mode
from cxc_eccv.encoding.towers.sides import CaptionSide, ImageSide, done_ahead
from cxc_eccv.encoding.towers.ten_crops import TenCropInput, TenCrops
from cxc_eccv.encoding.towers.texts import TextEncoder, encoder_of_texts, text_encoder

__all__ = [
    "CaptionSide",
    "ImageEncoder",
    "ImageInput",
    "ImageSide",
    "Inputs",
    "Prepared",
    "TenCropInput",
    "TenCrops",
    "TextEncoder",
    "done_ahead",
    "encoder_of_texts",
    "open_picture",
    "picture_mode",
    "prepared_image",
    "ready_for",
    "text_encoder",
]
